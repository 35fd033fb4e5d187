"""Altered config.json and model.safetensors: a model that works, or an AibError."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

import aib
from aib.config.settings import Settings
from aib.runs.files import read_settings
from tests.fuzz.damage import altered, damaged, values, written
from tests.fuzz.harness import World, fuzz, reading
from tests.helpers import SmallNet


def loads_or_fails(folder: Path, **options: Any) -> None:
    """The model is loaded and runs, or an AibError is raised."""
    with reading():
        model = aib.from_pretrained(folder, **options)
        side = max(model.min_size, 16)
        assert model(torch.zeros(1, 3, side, side), (1, 1)).logits.shape == (1, model.num_classes)


@given(st.data())
@fuzz
def test_configs(world: World, data: st.DataObject) -> None:
    world.clear()
    path = world.work / "run" / "config.json"
    whole = path.read_bytes()
    changed = altered(json.loads(whole)).map(written)
    path.write_bytes(data.draw(st.one_of(changed, changed, values.map(written), damaged(whole))))
    loads_or_fails(path.parent)
    with reading():
        assert isinstance(read_settings(path.parent), Settings)
    for command in (["eval", "run"], ["report", "run"], ["train", "--resume", "run"]):
        world.aib(*command)


@pytest.fixture(scope="module", params=[{"quantizer": 4}, {"masked": True}], ids=str)
def attached(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attached") / "net"
    options = {"latent_dim": 4, "image_size": 16} | request.param
    aib.attach(SmallNet(), at="features", num_classes=3, **options).save_pretrained(folder)
    return folder


@given(st.data())
@fuzz
def test_configs_of_attached_models(attached: Path, data: st.DataObject) -> None:
    path = attached / "config.json"
    original = path.with_suffix(".original")  # an earlier case may have altered the config
    if not original.exists():
        path.rename(original)
    path.write_bytes(written(data.draw(altered(json.loads(original.read_bytes())))))
    loads_or_fails(attached, backbone=SmallNet())


@given(st.data())
@fuzz
def test_weights(world: World, data: st.DataObject) -> None:
    """A safetensors file is the size of its header, the header, and the tensors."""
    world.clear()
    path = world.work / "run" / "model.safetensors"
    whole = path.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    headers = altered(json.loads(whole[8 : 8 + size])).map(written)
    changed = headers.map(lambda text: struct.pack("<Q", len(text)) + text + whole[8 + size :])
    path.write_bytes(data.draw(damaged(whole) | changed))
    loads_or_fails(path.parent)
