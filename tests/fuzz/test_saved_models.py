"""config.json and model.safetensors of anybody's making: a model or a sentence, nothing else."""

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
from torch import nn

import aib
from aib.errors import AibError
from aib.runs import read_settings
from aib.settings import Settings
from tests.fuzz.damage import damaged
from tests.fuzz.harness import WATCH, fuzz, limited
from tests.fuzz.strange_json import altered, values, written
from tests.fuzz.worlds import World


def opens(folder: Path, **options: Any) -> None:
    """The model is loaded whole and is good for a pass, or refused in words."""
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
def test_configs_with_something_exchanged(world: World, data: st.DataObject) -> None:
    world.clear()
    path = world.work / "run" / "config.json"
    path.write_bytes(written(data.draw(altered(good_config(world)))))
    opens(path.parent)
    try:
        with limited():
            assert isinstance(read_settings(path.parent), Settings)
    except AibError as error:
        assert "config.json" in str(error) or "must be" in str(error) or "batch_size" in str(error)


@given(st.data())
@fuzz
def test_configs_of_anything(world: World, data: st.DataObject) -> None:
    world.clear()
    path = world.work / "run" / "config.json"
    whole = json.dumps(good_config(world)).encode()
    path.write_bytes(data.draw(st.one_of(values.map(written), damaged(whole), st.binary())))
    opens(path.parent)
    for command in (["eval", "run"], ["report", "run", "--stored"], ["train", "--resume", "run"]):
        assert world.aib(*command).code in (0, 2)


def test_preprocessing_inside_the_model_is_refused(world: World) -> None:
    world.clear()
    path = world.work / "run" / "config.json"
    config = good_config(world)
    config["model"]["preprocessing"] = True
    path.write_bytes(written(config))
    with pytest.raises(AibError, match="preprocessing inside its model"):
        aib.from_pretrained(path.parent)


@pytest.mark.parametrize(
    ("key", "value"),
    [("attention", 5), ("quantizer", "x"), ("head", 5), ("min_size", "x"), ("image_size", 0)],
)
def test_parts_of_the_wrong_kind_are_refused(key: str, value: Any) -> None:
    parts = nn.Conv2d(3, 4, 3), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(AibError, match=key):
        aib.AIB(*parts, num_classes=3, **{key: value})


class Net(nn.Module):
    """A network of somebody else's."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.fc = nn.Linear(4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.conv(x).mean((2, 3)))


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attached") / "net"
    net = aib.attach(Net(), at="conv", num_classes=3, quantizer=4, image_size=16, latent_dim=4)
    net.save_pretrained(folder)
    return folder


@given(st.data(), st.booleans())
@fuzz
def test_attached_configs_with_something_exchanged(
    attached: Path, data: st.DataObject, composed: bool
) -> None:
    path = attached / "config.json"
    kept = path.read_bytes()
    try:
        path.write_bytes(written(data.draw(altered(json.loads(kept)))))
        parts = (nn.Conv2d(3, 4, 3), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
        opens(attached, backbone=parts if composed else Net())
    finally:
        path.write_bytes(kept)


def split_file(content: bytes) -> tuple[dict[str, Any], bytes]:
    """A safetensors file's header and data."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def joined(header: Any, tensors: bytes) -> bytes:
    text = written(header)
    return struct.pack("<Q", len(text)) + text + tensors


@given(st.data())
@fuzz
def test_weights_with_an_altered_header(world: World, data: st.DataObject) -> None:
    world.clear()
    path = world.work / "run" / "model.safetensors"
    header, tensors = split_file(path.read_bytes())
    path.write_bytes(joined(data.draw(altered(header)), tensors))
    opens(path.parent)


@given(st.data())
@fuzz
def test_damaged_weights(world: World, data: st.DataObject) -> None:
    world.clear()
    path = world.work / "run" / "model.safetensors"
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    opens(path.parent)


@given(
    st.sampled_from([float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0]),
    st.integers(min_value=0),
)
@fuzz
def test_weights_of_any_value(world: World, value: float, which: int) -> None:
    """Weights that are not finite are refused; those that are must not trip a command up."""
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
        assert answer.code == 0
        found = aib.from_pretrained(path.parent).explain(torch.zeros(1, 3, 16, 16))
        with contextlib.suppress(AibError):  # the map may well be NaN, and overlay says so
            aib.overlay(torch.zeros(3, 16, 16, dtype=torch.uint8), found.attention[0])
