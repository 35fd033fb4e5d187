"""Latency is measured for every available variant."""

import json
import re

import pytest
import torch

from aib.bench.latency import summarise, time_in_turns
from aib.cli import main
from aib.export import formats


def test_the_variants_take_turns_and_a_failure_is_noted():
    calls = []

    def broken(x):
        raise RuntimeError("no C++ compiler\nand a long story")

    variants = {
        "eager": lambda x: calls.append("eager"),
        "compiled": broken,
        "onnx": lambda x: calls.append("onnx"),
    }
    times, notes = time_in_turns(variants, torch.zeros(1), seconds=0.1)
    assert notes == ["compiled was not measured: no C++ compiler"]
    assert list(times) == ["eager", "onnx"] and len(times["eager"]) == len(times["onnx"]) > 3
    turns = calls[4:]  # after two calls of each to warm up
    assert turns[:8] == ["eager"] * 4 + ["onnx"] * 4  # the first of each four is not counted
    assert len(turns) * 3 == sum(map(len, times.values())) * 4


def test_the_summary_is_in_milliseconds_and_relative_to_eager():
    eager = [0.010] * 10 + [0.030] * 2
    [first, second] = summarise({"eager": eager, "onnx": [0.004, 0.005, 0.006]}, batch=2)
    assert first["median_ms"] == pytest.approx(10) and first["ratio"] == 1
    assert 10 < first["p90_ms"] <= 30
    assert second["median_ms"] == pytest.approx(5) and second["ratio"] == pytest.approx(2)
    assert 5 < second["p90_ms"] <= 6  # never above the slowest call, also of three
    assert (second["way"], second["batch"], second["calls"]) == ("onnx", 2, 3)


INFER = "infer --model tiny_aib_qt --width 0.1 --batch-size 4 --samples 1x1 --seconds 0.01"


def test_without_onnxruntime_the_others_are_measured_and_a_note_says_why(monkeypatch, capsys):
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    assert main(["bench", *INFER.split(), "--device", "cpu", "--compile", "False"]) == 0
    out = capsys.readouterr().out
    assert "onnx was not measured: ONNX needs onnx: pip install 'aib[onnx]'" in out
    assert re.search(r"^samples +1x1$", out, re.MULTILINE)
    assert out.count("eager channels-last") == 2 and "compiled" not in out


@pytest.mark.slow
def test_every_variant_is_measured_on_the_cpu(capsys):
    assert main(["bench", *INFER.split(), "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["latency"]
    assert found["notes"] == []
    ways = {"eager", "eager channels-last", "compiled", "onnx", "onnx int8"}
    assert {row["way"] for row in found["rows"]} == ways
    assert all(0 < row["median_ms"] <= row["p90_ms"] for row in found["rows"])
