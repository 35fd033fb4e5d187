"""Validation of values against annotations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from aib import AibError
from aib.validation import Rule, above, at_least, between, check, check_fields, from_json

EVEN = Rule("that is even", lambda value: value % 2 == 0)


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (int, [0, -3, 10**30], [1.0, True, "1", None]),
        (float, [0.5, 1, -2], [float("nan"), float("inf"), 10**400, True, "1"]),
        (bool, [True, False], [0, 1, None]),
        (Literal["a", "b"], ["a", "b"], ["c", [], {}, None]),
        (int | None, [None, 1], ["1", 1.5]),
        (tuple[int, ...], [(), (1, 2)], [[1], (1, "2"), 1]),
        (tuple[int, str], [(1, "a")], [(1,), ("a", 1), (1, "a", "b")]),
        (Annotated[int, at_least(2)], [2], [1, 2.0]),
        (Annotated[float, above(0)] | None, [1e-9, None], [0, -1]),
        (Annotated[float, between(0, 1)], [0, 1], [-0.1, 1.1]),
        (Annotated[int, at_least(0), EVEN], [0, 4], [3, -2]),
        (tuple[Annotated[int, at_least(0)], ...], [(0, 1)], [(0, -1)]),
    ],
)
def test_types_and_ranges(hint, good, bad):
    for value in good:
        check("x", value, hint)
    for value in bad:
        with pytest.raises(AibError, match="x must be"):
            check("x", value, hint)


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (Annotated[int, at_least(1)], 0, "x must be an integer of at least 1, not 0"),
        (Annotated[float, above(0)] | None, "a", "x must be a number above 0 or None, not 'a'"),
        (Literal["a", "b"], "c", "x must be one of 'a', 'b', not 'c'"),
        (tuple[int, ...], 1, "x must be a list, each an integer, not 1"),
    ],
)
def test_messages(hint, value, message):
    with pytest.raises(AibError) as error:
        check("x", value, hint)
    assert str(error.value) == message


@dataclass(frozen=True)
class Record:
    count: Annotated[int, at_least(1)] = 1
    names: tuple[str, ...] = ()

    def __post_init__(self):
        check_fields(self)


def test_json_becomes_a_dataclass_and_errors_name_the_file():
    where = Path("some.json")
    assert from_json(Record, {"names": ["a"]}, where) == Record(1, ("a",))
    with pytest.raises(AibError, match="some.json: count must be an integer of at least 1, not 0"):
        from_json(Record, {"count": 0}, where)
    with pytest.raises(AibError, match="some.json: no setting 'cuont'; did you mean count"):
        from_json(Record, {"cuont": 2}, where)
