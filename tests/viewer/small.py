"""A viewer of small untrained models, and pictures for it."""

from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from aib.data import ImageSet, load
from aib.runs import Run
from aib.viewer.scene import Viewer
from tests.interpret.small import make_model


@cache
def shapes() -> ImageSet:
    """Two of them: the whole set takes its time."""
    return load("shapes:count=2", "test")


def opened(tmp_path, name: str = "tiny_aib_qt", model=None) -> Run:
    model = make_model(name, shapes()) if model is None else model
    return Run(folder=tmp_path / name, label=name, model=model, settings=None)


def viewer(tmp_path, *names: str, **options) -> Viewer:
    return Viewer([opened(tmp_path, name) for name in names or ("tiny_aib_qt",)], **options)


def photo(width: int = 48, height: int = 32, seed: int = 0) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def saved_model(folder: Path, name: str = "tiny_aib_qt") -> Path:
    make_model(name, shapes()).save_pretrained(folder)
    return folder


def write_cifar10_test(root: Path) -> None:
    """As many images as the official file has: fewer are refused as damaged."""
    rows = np.random.default_rng(0).integers(0, 256, (10_000, 1 + 3 * 32 * 32), dtype=np.uint8)
    rows[:, 0] %= 10
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    rows.tofile(folder / "test_batch.bin")
