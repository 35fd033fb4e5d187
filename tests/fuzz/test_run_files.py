"""Damaged results and checkpoints of a run: the command works or exits with a message."""

import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from aib.training.folder import load_checkpoint
from tests.fuzz.damage import altered, damaged, values, written
from tests.fuzz.harness import CASES, World, fuzz, reading


def lines(rows: Any) -> bytes:
    return b"".join(written(row) + b"\n" for row in (rows if isinstance(rows, list) else [rows]))


@pytest.fixture(scope="module")
def studied(world: World) -> World:
    """The world with results of `eval` and `interpret` in its run."""
    world.clear()
    assert world.aib("interpret", "run", "--images", "2", "--subset", "2") == 0
    for name in ("interpret.json", "evaluation.json"):
        (world.given / "run" / name).write_bytes((world.work / "run" / name).read_bytes())
    return world


@given(st.sampled_from(["metrics.jsonl", "interpret.json", "evaluation.json"]), st.data())
@settings(fuzz, max_examples=CASES // 3)  # each draws a page of charts
def test_results(studied: World, name: str, data: st.DataObject) -> None:
    studied.clear()
    path = studied.work / "run" / name
    whole = path.read_bytes()
    is_lines = name == "metrics.jsonl"
    document = [json.loads(line) for line in whole.splitlines()] if is_lines else json.loads(whole)
    changed = (altered(document) | values).map(lines if is_lines else written)
    path.write_bytes(data.draw(changed | damaged(whole)))
    code, page = studied.aib("report", "run"), studied.work / "run" / "report.html"
    assert page.is_file() == (code == 0)
    assert code or "<script" not in page.read_text(encoding="utf-8")


tensors = st.builds(torch.full, st.sampled_from([(), (1,), (7,), (2, 2)]), st.just(float("nan")))
wrong_values = st.one_of(values, tensors, st.lists(tensors, max_size=2))


@given(st.data())
@fuzz
def test_checkpoints(world: World, data: st.DataObject) -> None:
    """Of a run without weights, as if it had been killed: it resumes, or exits with a message."""
    world.clear()
    (world.work / "run" / "model.safetensors").unlink()
    path = world.work / "run" / "checkpoint.pt"
    if data.draw(st.booleans()):
        path.write_bytes(data.draw(damaged(path.read_bytes())))
        with reading():
            assert isinstance(load_checkpoint(path), dict)
        return
    state = torch.load(path, weights_only=True)
    holder: Any = state
    for _ in range(data.draw(st.integers(0, 3))):
        inner = [key for key, value in holder.items() if isinstance(value, dict) and value]
        if not inner:
            break
        holder = holder[data.draw(st.sampled_from(inner))]
    key = data.draw(st.sampled_from(list(holder)))
    if data.draw(st.booleans()):
        holder[key] = data.draw(wrong_values)
    else:
        del holder[key]
    torch.save(state, path)
    world.aib("train", "--resume", "run")
