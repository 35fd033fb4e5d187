"""Validation of values and JSON against annotations."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from aib import AibError
from aib.config.validation import (
    Rule,
    above,
    at_least,
    check,
    check_fields,
    parse_json,
)
from aib.evaluation.error import Evaluation, read_evaluations
from aib.system.files import write_json

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


@dataclass(frozen=True)
class Inner:
    size: Annotated[int, at_least(1)]
    share: float | None = None


@dataclass(frozen=True)
class Outer:
    name: str
    pair: tuple[int, float]
    kind: Literal["a", "b"] = "a"
    parts: tuple[Inner, ...] = ()
    table: dict[str, Inner | None] | None = None
    value: str | int | float | bool | None = None

    def __post_init__(self):
        check_fields(self)


FULL = {"name": "x", "pair": [1, 2], "kind": "b", "parts": [{"size": 3}], "value": True}


def test_nested_dataclasses_are_built_and_unknown_keys_ignored():
    found = parse_json(Outer, FULL | {"table": {"t": {"size": 1, "share": 2}}, "new": 1}, "f")
    assert found == Outer("x", (1, 2.0), "b", (Inner(3),), {"t": Inner(1, 2.0)}, True)
    assert type(found.pair[1]) is float and found.value is True
    assert parse_json(Outer, {"name": "x", "pair": [1, 2.5]}, "f") == Outer("x", (1, 2.5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "f: name must be a string, not None"),
        ({"pair": [1]}, r"f: pair must be 2 values, .*, not \[1\]"),
        ({"pair": [True, 2]}, r"f: pair\[0\] must be an integer, not True"),
        ({"pair": [1, 10**400]}, r"f: pair\[1\] must be a number, not 1000"),
        ({"kind": "c"}, "f: kind must be one of .*, not 'c'"),
        ({"kind": [1]}, r"f: kind must be .*, not \[1\]"),
        ({"parts": [{"size": "3"}]}, r"f: parts\[0\].size must be an integer, not '3'"),
        ({"parts": [{}]}, r"f: parts\[0\] lacks 'size'"),
        ({"table": {"t": {"size": []}}}, r"f: table.t.size must be .*, not \[\]"),
        ({"value": {}}, "f: value must be a string or .*, not {}"),
    ],
)
def test_an_error_names_the_field_and_the_value(change, message):
    with pytest.raises(AibError, match=message):
        parse_json(Outer, FULL | change, "f")


def test_an_evaluation_is_read_back(tmp_path):
    evaluation = Evaluation(
        "shapes", "test", "own", 4, 25.0, (5, 70), None, None, 0.5, 17.5, 3.0, "4x12", "logits"
    )
    write_json(tmp_path / "evaluation.json", {"shapes test": evaluation.to_dict()})
    assert read_evaluations(tmp_path / "evaluation.json") == {"shapes test": evaluation}
    assert read_evaluations(tmp_path / "missing.json") == {}
