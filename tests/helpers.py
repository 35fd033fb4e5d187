"""Small networks, models, images and runs that the tests share."""

import math
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import aib
from aib.config.settings import Settings
from aib.data import ImageSet, load
from aib.training.folder import RunFolder
from aib.training.progress import Reporter

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


def latent_of(name: str, size: int) -> dict[str, int]:
    """The option `latent_dim`, for those named models that have a latent."""
    has_latent = any(part in name for part in ("aib", "dvib", "evaluator"))
    return {"latent_dim": size} if has_latent else {}


def small_model(
    name: str = "tiny_aib_qt", num_classes: int = 10, *, seed: int = 0, **options
) -> aib.Classifier:
    """An untrained model of a quarter of its width, in training mode; `seed` gives its weights."""
    torch.manual_seed(seed)
    return aib.create_model(name, num_classes, **{"width": 0.25, **options})


def eval_model(
    name: str = "tiny_aib_qt", data: ImageSet | None = None, **options
) -> aib.Classifier:
    """A small model in evaluation mode, with the preprocessing of `data`."""
    model = small_model(name, **options).eval()
    if data is not None:
        model.preprocessing = data.preprocessing
    return model


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    """Whether two models agree to the last bit, buffers included."""
    return all(torch.equal(value, b.state_dict()[name]) for name, value in a.state_dict().items())


def numbers(found, name: str = "") -> dict[str, float]:
    """The numbers in nested results, by their names."""
    parts = asdict(found) if is_dataclass(found) else found
    if not isinstance(parts, dict):
        return {} if parts is None else {name[1:]: parts}
    return {k: v for key, part in parts.items() for k, v in numbers(part, f"{name}.{key}").items()}


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


def filled_model(name: str, image_size: int = 32, **options) -> aib.Classifier:
    """A small model of three classes with nothing left at its initial value, anchors unordered."""
    options = {"width": 1 / 16, **latent_of(name, 8), **options}
    model = aib.create_model(name, 3, image_size, **options)
    fill(model, Numbers(0))
    if model.quantizer is not None:
        model.quantizer.anchors.data.copy_(model.quantizer.anchors.data.flip(0))
    policy = aib.Preprocessing(
        64 if image_size == 224 else image_size, "crop", (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    )
    model.preprocessing = replace(policy, class_names=("circle", "square", "star"))
    return model.eval()


# --- processes and runs ---------------------------------------------------------------------------


def run_process(*words: str | Path, cwd: Path, **environment: str) -> str:
    """What a program prints; it must end without an error."""
    variables = {k: v for k, v in os.environ.items() if k != "LOCAL_RANK"} | environment
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env=variables, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def start_run(
    folder: Path,
    model: aib.Classifier,
    settings: Settings,
    held_out: Sequence[str | int] | None = None,
) -> RunFolder:
    """The folder of a run as `aib train` makes it before the first step."""
    run = RunFolder(folder)
    with run.opened(model, {"settings": settings.to_dict()}, held_out=held_out):
        return run


def make_run(
    folder: Path, name: str = "tiny_aib_qt", model: aib.Classifier | None = None, **settings
) -> Path:
    """A run folder as `aib train` on the shapes leaves it, with an untrained model."""
    model = small_model(name, preprocessing=shapes(2).preprocessing) if model is None else model
    s = Settings(data="shapes", model=name).updated(width=0.25, **settings)
    options = {"root": s.root, "seed": s.seed, "holdout": s.holdout}
    held_out = load(s.data, "val", **options).keys if s.holdout else None
    run = start_run(folder, model, s, held_out)
    run.write_weights(model)
    return folder


# --- training -----------------------------------------------------------------------------------

SMALL = Settings(epochs=2, batch_size=8, lr=0.05, log_every=3, accelerator="cpu", workers=0)


class RecordingReporter(Reporter):
    """Collects rows of metrics and messages."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.messages: list[str] = []

    def metrics(self, row: dict) -> None:
        self.rows.append(row)

    def message(self, text: str) -> None:
        self.messages.append(text)


# --- report -------------------------------------------------------------------------------------

VOID_TAGS = {"meta", "link", "img", "br"}


class HtmlPage(HTMLParser):
    """A parsed page: checks nesting; collects images, addresses, tags and ids."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.images, self.addresses = [], [], []
        self.tags, self.ids = set(), set()
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.add(tag)
        self.ids.add(found.get("id"))
        if tag == "img":
            self.images.append(found)
        self.addresses += [found[k] for k in ("src", "href") if k in found]
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID_TAGS:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
