"""Crops of files that are decoded once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from aib.data import Batches, ImageFiles, ImageSet, decoded
from aib.data.augment import EpochPlan, crop_image, crop_squares
from aib.data.decode import to_tensor
from aib.data.decoded import decode_once
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError

SIZE = 72


def smooth(width: int, height: int, seed: int) -> Image.Image:
    """A picture without fine detail: resizing it twice is as good as once."""
    waves = np.random.default_rng(seed).uniform(1, 4, (3, 2))
    y, x = np.mgrid[:height, :width]
    planes = [np.sin(a * x / width + b * y / height) for a, b in waves]
    return Image.fromarray((127.5 + 127.4 * np.stack(planes, -1)).astype(np.uint8))


@pytest.fixture
def photos(tmp_path: Path) -> ImageSet:
    sizes = [(200, 120), (90, 160), (150, 150), (300, 290), (128, 100), (80, 80)]
    paths = [tmp_path / f"{i}.png" for i in range(len(sizes))]
    for seed, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        smooth(*size, seed).save(path)
    names = tuple("abcdef")
    statistics = Preprocessing(SIZE, class_names=names)
    return ImageSet("photos", "train", torch.arange(6), statistics, files=ImageFiles(tuple(paths)))


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    """The images that were decoded, in order."""
    seen: list[int] = []
    original = ImageFiles.decode

    def count(files: ImageFiles, index: int, **options) -> Image.Image:
        seen.append(index)
        return original(files, index, **options)

    monkeypatch.setattr(ImageFiles, "decode", count)
    return seen


@pytest.mark.parametrize("flip", [False, True])
def test_crops_of_squares_are_the_crops_of_the_file(photos: ImageSet, flip: bool) -> None:
    squares, ratios = decode_once(photos, "memory", 1)
    assert squares.shape == (6, 3, 90, 90)
    for epoch in range(8):
        plan = EpochPlan.sample(6, seed=0, epoch=epoch)
        rows = plan.order
        crops = crop_squares(squares[rows], ratios[rows], plan.uniform, size=SIZE, flip=flip)
        for crop, index, u in zip(crops, plan.order.tolist(), plan.uniform, strict=True):
            want = to_tensor(crop_image(photos.files.decode(index), u, size=SIZE, flip=flip))
            assert (crop.int() - want.int()).abs().max() <= 6
            assert (crop.int() - want.int()).abs().float().mean() < 0.8


@pytest.mark.parametrize("cache", ["auto", "memory"])
def test_batches_decoded_once_are_those_decoded_on_access(photos: ImageSet, cache, calls) -> None:
    settings = {"train": True, "trivial_augment": False, "cutout": 16, "alternate_flip": True}
    on_access = Batches(photos, 3, **settings)
    copied = Batches(photos, 3, cache=cache, **settings)
    assert sorted(calls) == list(range(6))  # each once, before the first epoch
    calls.clear()
    epochs = [list(copied.epoch(e)) for e in range(2)]
    assert calls == []
    for epoch, found in enumerate(epochs):
        for (x, y), (want, label) in zip(found, on_access.epoch(epoch), strict=True):
            assert torch.equal(y, label)
            assert (x - want).abs().max() <= 6 / 127.5 and x.shape == want.shape
    resumed = list(copied.epoch(1, start=1))
    assert torch.equal(resumed[0][0], epochs[1][1][0])


def test_memory_decides_whether_files_are_decoded_once(photos: ImageSet, monkeypatch) -> None:
    needed = 6 * 3 * 90 * 90
    assert decode_once(photos, "none", 1) is None
    monkeypatch.setattr(decoded, "machine_memory", lambda: 2 * needed)
    for processes in (1, 2):  # each with its own
        batches = Batches(photos, 3, train=True, cache="auto", world_size=processes)
        assert (batches._images is None) == (processes == 2)
    monkeypatch.setattr("aib.data.imageset.machine_memory", lambda: 2 * needed - 1)
    assert decode_once(photos, "memory", 1) is not None
    with pytest.raises(AibError, match="this machine has"):
        decode_once(photos, "memory", 2)


def test_a_large_jpeg_is_decoded_reduced_and_looks_the_same(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    smooth(1600, 1200, 0).save(path, quality=95)
    files = ImageFiles((path,))
    whole, reduced = files.decode(0), files.decode(0, reduce=180)
    assert (whole.size, reduced.size) == ((1600, 1200), (400, 300))  # a quarter; an eighth is 150
    part = replace(files, crops=torch.tensor([[0.0, 100, 1600, 700]]))  # in pixels of the whole
    assert part.decode(0, reduce=180).size == (1600, 600)
    small = [np.asarray(image.resize((90, 90))).astype(int) for image in (whole, reduced)]
    assert abs(small[0] - small[1]).max() <= 4
