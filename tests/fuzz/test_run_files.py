"""What else a run's folder holds, torn or altered: the report is written, or says what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aib.errors import AibError
from aib.training.checkpoint import load_checkpoint
from tests.fuzz.damage import damaged
from tests.fuzz.harness import WATCH, fuzz, limited
from tests.fuzz.strange_json import altered, values, written
from tests.fuzz.worlds import World


def reported(world: World) -> None:
    """A page with nothing foreign in it that a browser would run, or a sentence."""
    answer = world.aib("report", "run", "--stored")
    page = world.work / "run" / "report.html"
    assert page.is_file() == (answer.code == 0)
    if answer.code == 0:
        assert "<script" not in page.read_text(encoding="utf-8")


def lines(rows: list[Any]) -> bytes:
    return b"".join(written(row) + b"\n" for row in rows)


@given(st.data())
@fuzz
def test_metrics(world: World, data: st.DataObject) -> None:
    world.clear()
    path = world.work / "run" / "metrics.jsonl"
    whole = path.read_bytes()
    rows = [json.loads(line) for line in whole.splitlines()]
    path.write_bytes(
        data.draw(
            st.one_of(
                altered(rows).map(
                    lambda value: lines(value if isinstance(value, list) else [value])
                ),
                damaged(whole),
                st.lists(values, max_size=3).map(lines),
            )
        )
    )
    reported(world)


@pytest.fixture(scope="module")
def studied(world: World) -> World:
    """The run with an interpret.json of its own."""
    world.clear()
    assert world.aib("interpret", "run", "--images", "2", "--subset", "2").code == 0
    for name in ("interpret.json", "evaluation.json"):
        source = world.work / "run" / name
        (world.given / "run" / name).write_bytes(source.read_bytes())
    return world


@given(st.sampled_from(["interpret.json", "evaluation.json"]), st.data())
@fuzz
def test_results(studied: World, name: str, data: st.DataObject) -> None:
    studied.clear()
    path = studied.work / "run" / name
    whole = path.read_bytes()
    path.write_bytes(
        data.draw(
            st.one_of(altered(json.loads(whole)).map(written), damaged(whole), values.map(written))
        )
    )
    reported(studied)


def interrupted(world: World) -> Path:
    """The checkpoint of a run without its weights, as if it had been killed before the end."""
    world.clear()
    (world.work / "run" / "model.safetensors").unlink()
    return world.work / "run" / "checkpoint.pt"


@given(st.data())
@fuzz
def test_damaged_checkpoints(world: World, data: st.DataObject) -> None:
    path = interrupted(world)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    try:
        with limited(), WATCH.on() as touched:
            assert isinstance(load_checkpoint(path), dict)
    except AibError as error:
        assert "checkpoint.pt" in str(error)
    assert not touched


tensors = st.builds(
    torch.full,
    st.sampled_from([(), (1,), (3,), (7,), (2, 2)]),
    st.sampled_from([0.0, 1.0, float("nan"), 1e38]),
)
strange = st.one_of(values, tensors, st.lists(tensors, max_size=2))


@given(st.data())
@fuzz
def test_checkpoints_of_another_content(world: World, data: st.DataObject) -> None:
    """Loaded or refused; and whatever is loaded, the training goes on or stops with a sentence."""
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
        holder[key] = data.draw(strange)
    else:
        del holder[key]
    torch.save(state, path)
    world.aib("train", "--resume", "run")


@pytest.mark.parametrize(
    "line",
    [b"null", b"7", b"\x80", b'{"nll": 1}', b'{"step": 1, "nll": []}'],
)
def test_lines_that_once_went_wrong(world: World, line: bytes) -> None:
    world.clear()
    with (world.work / "run" / "metrics.jsonl").open("ab") as file:
        file.write(line + b"\n")
    reported(world)


@pytest.mark.parametrize("content", [b"[]", b"7", b"\x80", b"[" * 100_000])
def test_figures_are_not_added_to_a_damaged_file(world: World, content: bytes) -> None:
    world.clear()
    path = world.work / "run" / "evaluation.json"
    path.write_bytes(content)
    answer = world.aib("eval", "run", "--workers", "0")
    assert answer.code == 2 and "evaluation.json" in answer.err and "top-1 error" in answer.out
    assert path.read_bytes() == content


def test_a_verdict_is_no_place_for_a_script(studied: World) -> None:
    studied.clear()
    path = studied.work / "run" / "interpret.json"
    result = json.loads(path.read_text())
    result["reliance"]["verdict"] = "<script>alert(1)</script>"
    path.write_text(json.dumps(result))
    reported(studied)
    assert "&lt;script&gt;" in (studied.work / "run" / "report.html").read_text()


@pytest.mark.parametrize("key", ["schema", "optimizer"])
def test_states_that_once_went_wrong(world: World, key: str) -> None:
    path = interrupted(world)
    state = torch.load(path, weights_only=True)
    if key == "schema":
        state[key] = torch.zeros(2)
    else:
        first = next(iter(state[key]["state"].values()))
        first["momentum_buffer"] = torch.zeros(2, 2)
    torch.save(state, path)
    assert world.aib("train", "--resume", "run").code == 2


def test_a_checkpoint_is_read_without_running_it(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "touched",)

    torch.save({"schema": 1, "step": Evil()}, tmp_path / "checkpoint.pt")
    with pytest.raises(AibError, match="checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.pt")
    assert not (tmp_path / "touched").exists()
