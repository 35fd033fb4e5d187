"""Collecting photographs to learn from without labels."""

import shutil

import numpy as np
import pytest
from PIL import Image

from aib.data import load
from aib.errors import AibError
from tools.photographs import collect


@pytest.fixture
def sets(tmp_path):
    """Two sets of photographs, and one to test on, which share some images."""
    random = np.random.default_rng(0)
    names = ["a/cats/1.png", "a/cats/2.png", "b/3.png", "b/val_7.png", "test/val_7.png"]
    for name in names:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        ramp = np.linspace(0, 1, 50)[None, :, None] * random.integers(256, size=(30, 1, 1))
        Image.fromarray((ramp * random.random(3)).astype(np.uint8)).save(file)
    shutil.copy(tmp_path / "a/cats/1.png", tmp_path / "b/copy.png")
    (tmp_path / "b/damaged.png").write_bytes(b"\x89PNG")
    return tmp_path


def test_copies_are_of_one_size_without_test_images_equal_or_damaged_files(sets):
    counts = collect(sets / "out", {n: sets / n for n in "ab"}, [sets / "test"], side=16)
    assert {name: count["written"] for name, count in counts.items()} == {"a": 2, "b": 1}
    images = load(f"folder:{sets / 'out'}:labels=no,image_size=16", holdout=0)
    assert len(images) == 3 and not images.skipped
    [of_b] = (sets / "out" / "b").iterdir()
    original = Image.open(sets / "b/3.png").resize((16, 16), Image.Resampling.BILINEAR)
    difference = np.asarray(Image.open(of_b), float) - np.asarray(original, float)
    assert abs(difference).mean() < 6 < np.asarray(original).std()  # the same picture, compressed


def test_a_folder_with_files_and_a_source_without_images_are_errors(sets):
    with pytest.raises(AibError, match="not empty"):
        collect(sets / "a", {"b": sets / "b"})
    with pytest.raises(AibError, match="no images"):
        collect(sets / "out", {"none": sets / "none"})
