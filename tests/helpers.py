"""Small networks, models, images and runs that the tests share."""

import math
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import aib
from aib.data import ImageSet, load
from aib.runs import Run
from aib.settings import Settings

# --- images -------------------------------------------------------------------------------------


def images(batch: int = 2, height: int = 32, width: int | None = None) -> Tensor:
    """Normalised images as a model takes them, [B,3,H,W], from the global generator."""
    return torch.randn(batch, 3, height, width or height)


def pixels(count: int = 2, size: int = 32, seed: int = 0) -> Tensor:
    """Random pixels, uint8 [N,3,S,S]."""
    values = np.random.default_rng(seed).integers(0, 256, (count, 3, size, size), np.uint8)
    return torch.from_numpy(values)


def image_set(count: int = 40, num_classes: int = 4, size: int = 32, **options) -> ImageSet:
    """Random pixels whose labels count 0, 1, ..., num_classes - 1, 0, 1, ..."""
    return ImageSet.from_tensors(pixels(count, size), torch.arange(count) % num_classes, **options)


@cache
def shapes(count: int = 24) -> ImageSet:
    """The first test images of cluttered shapes, with their masks."""
    return load(f"shapes:count={count}", "test")


def photo(width: int = 48, height: int = 32, seed: int = 0) -> Image.Image:
    """Noise as a PIL image."""
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(values)


# --- networks and models ------------------------------------------------------------------------


class SmallNet(nn.Module):
    """A user's own network for `attach`: use at="features"."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.more = nn.Sequential(nn.Conv2d(4, 6, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(6, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.more(self.features(x)).flatten(1))


def small_model(
    name: str = "tiny_aib_qt", num_classes: int = 10, *, seed: int = 0, **options
) -> aib.Classifier:
    """An untrained model of a quarter of its width, in training mode; `seed` gives its weights."""
    torch.manual_seed(seed)
    return aib.create_model(name, num_classes, **{"width": 0.25, **options})


class Numbers:
    """Numbers from -1 to 1 that are the same on every machine: PCG64's bits are specified."""

    def __init__(self, seed: int) -> None:
        self.bits = np.random.PCG64(seed)

    def __call__(self, *shape: int) -> Tensor:
        raw = self.bits.random_raw(math.prod(shape))
        return torch.from_numpy(2 * (raw / 2.0**64) - 1).reshape(shape)


@torch.no_grad()
def fill(model: nn.Module, numbers: Numbers) -> Numbers:
    """Set weights and running statistics from `numbers`; anchors evenly over [0,1]."""
    for name, value in model.state_dict().items():
        if not value.is_floating_point():
            continue
        if name.endswith("anchors"):
            value.copy_(torch.linspace(0, 1, len(value), dtype=torch.float64))
        elif value.dim() > 1:
            value.copy_(numbers(*value.shape) * math.sqrt(2 / value[0].numel()))
        elif name.endswith(("weight", "running_var")):  # of BatchNorm
            value.copy_(1 + numbers(*value.shape) / 2)
        else:
            value.copy_(numbers(*value.shape) / 5)
    return numbers


# --- runs ---------------------------------------------------------------------------------------


def make_run(
    folder: Path, name: str = "tiny_aib_qt", model: aib.Classifier | None = None, **settings
) -> Path:
    """A run folder as `aib train` on the shapes leaves it, with an untrained model."""
    model = small_model(name, preprocessing=shapes(2).preprocessing) if model is None else model
    run = Run.create(folder, model, Settings(data="shapes", model=name, width=0.25, **settings))
    run.write_weights(model)
    return folder
