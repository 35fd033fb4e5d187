"""Dataclasses from JSON."""

import json
from dataclasses import dataclass
from typing import Literal

import pytest

import aib
from aib.evaluate import CalibrationBins, Evaluation, read_evaluations
from aib.files import write_json
from aib.runs import packaged_models
from aib.validation import parse_json


@dataclass(frozen=True)
class Inner:
    size: int
    share: float | None = None


@dataclass(frozen=True)
class Outer:
    name: str
    pair: tuple[int, float]
    kind: Literal["a", "b"] = "a"
    parts: tuple[Inner, ...] = ()
    table: dict[str, Inner | None] | None = None
    value: str | int | float | bool | None = None


FULL = {"name": "x", "pair": [1, 2], "kind": "b", "parts": [{"size": 3}], "value": True}


def test_nested_dataclasses_are_built_and_unknown_keys_ignored():
    found = parse_json(Outer, FULL | {"table": {"t": {"size": 1, "share": 2}}, "new": 1}, "f")
    assert found == Outer("x", (1, 2.0), "b", (Inner(3),), {"t": Inner(1, 2.0)}, True)
    assert type(found.pair[1]) is float and found.value is True
    assert parse_json(Outer, {"name": "x", "pair": [1, 2.5]}, "f") == Outer("x", (1, 2.5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "f.name cannot be None"),
        ({"pair": [1]}, r"f.pair cannot be \[1\]"),
        ({"pair": [True, 2]}, r"f.pair\[0\] cannot be True"),
        ({"pair": [1, 10**400]}, r"f.pair\[1\] cannot be 1000"),
        ({"kind": "c"}, "f.kind cannot be c"),
        ({"kind": [1]}, r"f.kind cannot be \[1\]"),
        ({"parts": [{"size": "3"}]}, r"f.parts\[0\].size cannot be 3"),
        ({"parts": [{}]}, r"f.parts\[0\] lacks 'size'"),
        ({"table": {"t": {"size": []}}}, r"f.table.t.size cannot be \[\]"),
        ({"value": {}}, "f.value cannot be {}"),
    ],
)
def test_an_error_names_the_field_and_the_value(change, message):
    with pytest.raises(aib.AibError, match=message):
        parse_json(Outer, FULL | change, "f")


def test_an_evaluation_is_read_back(tmp_path):
    bins = CalibrationBins((1, 3), (0.0, 1.0), (0.4, 0.9))
    evaluation = Evaluation(
        "shapes", "test", "own", 4, 25.0, (5.0, 70.0), None, None, 0.5, bins.error, 3.0, "4x12",
        "probabilities", 100.0, bins,
    )  # fmt: skip
    write_json(tmp_path / "evaluation.json", {"shapes test": evaluation.to_dict()})
    assert read_evaluations(tmp_path / "evaluation.json") == {"shapes test": evaluation}
    assert bins.error == pytest.approx(100 * (0.4 / 4 + 3 * 0.1 / 4))
    assert read_evaluations(tmp_path / "missing.json") == {}


def test_an_evaluation_of_an_older_version_is_read():
    path = packaged_models()["cifar10_small"] / "evaluation.json"
    [evaluation] = read_evaluations(path).values()
    stored = json.loads(path.read_text())["cifar10 test"]
    assert evaluation.top1_error == stored["top1_error"] and evaluation.calibration_bins is None
