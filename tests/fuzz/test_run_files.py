"""Damaged results and checkpoints of a run: the command works or exits with a message."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aib.training.checkpoint import load_checkpoint
from tests.fuzz.damage import altered, damaged, values, written
from tests.fuzz.harness import CASES, World, fuzz, reading


def write_report(world: World) -> None:
    """Write a page without scripts, or exit with a message."""
    answer = world.aib("report", "run")
    page = world.work / "run" / "report.html"
    assert page.is_file() == (answer.code == 0)
    assert answer.code or "<script" not in page.read_text(encoding="utf-8")


def lines(rows: Any) -> bytes:
    return b"".join(written(row) + b"\n" for row in (rows if isinstance(rows, list) else [rows]))


@pytest.fixture(scope="module")
def studied(world: World) -> World:
    """The world with results of `eval` and `interpret` in its run."""
    world.clear()
    assert world.aib("interpret", "run", "--images", "2", "--subset", "2").code == 0
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
    write_report(studied)


def interrupted(world: World) -> Path:
    """The checkpoint of a run without weights, as if it had been killed before the end."""
    world.clear()
    (world.work / "run" / "model.safetensors").unlink()
    return world.work / "run" / "checkpoint.pt"


@given(st.data())
@fuzz
def test_damaged_checkpoints(world: World, data: st.DataObject) -> None:
    path = interrupted(world)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    with reading():
        assert isinstance(load_checkpoint(path), dict)


tensors = st.builds(
    torch.full,
    st.sampled_from([(), (1,), (3,), (7,), (2, 2)]),
    st.sampled_from([0.0, 1.0, float("nan"), 1e38]),
)
wrong_values = st.one_of(values, tensors, st.lists(tensors, max_size=2))


@given(st.data())
@fuzz
def test_checkpoints_of_another_content(world: World, data: st.DataObject) -> None:
    """The training resumes, or exits with a message."""
    path = interrupted(world)
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


@pytest.mark.parametrize("content", [b"[]", b"7", b"\x80", b"[" * 100_000])
def test_results_are_not_added_to_a_damaged_file(world: World, content: bytes) -> None:
    world.clear()
    path = world.work / "run" / "evaluation.json"
    path.write_bytes(content)
    answer = world.aib("eval", "run", "--workers", "0")
    assert answer.code == 2 and "evaluation.json" in answer.err and "top-1 error" in answer.out
    assert path.read_bytes() == content
