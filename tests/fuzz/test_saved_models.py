"""Altered config.json and model.safetensors: a model that works, or an AibError."""

import contextlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import aib
from aib.config.settings import Settings
from aib.errors import AibError
from aib.runs.files import read_settings
from tests.fuzz.damage import altered, damaged, values, written
from tests.fuzz.harness import WATCH, World, fuzz, limited
from tests.helpers import SmallNet


def loads_or_fails(folder: Path, **options: Any) -> None:
    """The model is loaded and runs, or an AibError is raised."""
    try:
        with limited(), WATCH.on() as touched:
            model = aib.from_pretrained(folder, **options)
    except AibError as error:
        assert str(error)
    else:
        side = max(model.min_size, 16)
        assert model(torch.zeros(1, 3, side, side), (1, 1)).logits.shape == (1, model.num_classes)
    assert not touched


def good_config(world: World) -> Any:
    return json.loads((world.given / "run" / "config.json").read_text())


@given(st.data())
@fuzz
def test_configs(world: World, data: st.DataObject) -> None:
    world.clear()
    path = world.work / "run" / "config.json"
    config = good_config(world)
    path.write_bytes(
        data.draw(
            st.one_of(
                altered(config).map(written),
                altered(config).map(written),
                values.map(written),
                damaged(json.dumps(config).encode()),
            )
        )
    )
    loads_or_fails(path.parent)
    try:
        with limited():
            assert isinstance(read_settings(path.parent), Settings)
    except AibError as error:
        assert str(error)
    for command in (["eval", "run"], ["report", "run", "--stored"], ["train", "--resume", "run"]):
        world.aib(*command)


def test_preprocessing_inside_the_model_is_an_error(world: World) -> None:
    world.clear()
    config = good_config(world)
    config["model"]["preprocessing"] = True
    (world.work / "run" / "config.json").write_bytes(written(config))
    with pytest.raises(AibError, match="preprocessing inside its model"):
        aib.from_pretrained(world.work / "run")


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attached") / "net"
    net = aib.attach(
        SmallNet(), at="features", num_classes=3, quantizer=4, image_size=16, latent_dim=4
    )
    net.save_pretrained(folder)
    return folder


@given(st.data())
@fuzz
def test_configs_of_attached_models(attached: Path, data: st.DataObject) -> None:
    path = attached / "config.json"
    original = path.read_bytes()
    try:
        path.write_bytes(written(data.draw(altered(json.loads(original)))))
        loads_or_fails(attached, backbone=SmallNet())
    finally:
        path.write_bytes(original)


def split_file(content: bytes) -> tuple[dict[str, Any], bytes]:
    """A safetensors file's header and data."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def joined(header: Any, tensors: bytes) -> bytes:
    text = written(header)
    return struct.pack("<Q", len(text)) + text + tensors


@given(st.data())
@fuzz
def test_weights(world: World, data: st.DataObject) -> None:
    world.clear()
    path = world.work / "run" / "model.safetensors"
    whole = path.read_bytes()
    header, tensors = split_file(whole)
    bad_header = altered(header).map(lambda changed: joined(changed, tensors))
    path.write_bytes(data.draw(damaged(whole) | bad_header))
    loads_or_fails(path.parent)


@given(
    st.sampled_from([float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0]),
    st.integers(min_value=0),
)
@fuzz
def test_values_of_weights(world: World, value: float, which: int) -> None:
    """Weights that are not finite are an error, and so is what overflows; all others must work."""
    world.clear()
    path = world.work / "run" / "model.safetensors"
    weights = load_file(path)
    names = sorted(name for name in weights if weights[name].is_floating_point())
    name = names[which % len(names)]
    weights[name] = torch.full_like(weights[name], value)
    save_file(weights, path)
    answer = world.aib("eval", "run", "--workers", "0")
    if not math.isfinite(value):
        assert answer.code == 2 and f"{name} holds NaN or infinite values" in answer.err
    else:
        overflows = abs(value) > 1 and "the model gives NaN for 2 of the 2 images" in answer.err
        assert answer.code == (2 if overflows else 0)
        found = aib.from_pretrained(path.parent).explain(torch.zeros(1, 3, 16, 16))
        with contextlib.suppress(AibError):  # the map may be NaN, an error of overlay
            aib.overlay(torch.zeros(3, 16, 16, dtype=torch.uint8), found.attention[0])
