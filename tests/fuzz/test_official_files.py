"""Damaged official data files: images of the right form, or an AibError."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aib.data import load
from tests.data import official
from tests.fuzz.damage import damaged
from tests.fuzz.harness import fuzz, reading

TABLES = "images image_class_labels train_test_split bounding_boxes classes".split()
# name -> (function that writes a small set, the files that are read)
SETS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "cifar10": (official.write_cifar10, ["cifar-10-batches-bin/test_batch.bin"]),
    "cifar100": (official.write_cifar100, ["cifar-100-binary/test.bin"]),
    "stl10": (official.write_stl10, ["stl10_binary/test_X.bin", "stl10_binary/test_y.bin"]),
    "svhn": (official.write_svhn, ["svhn/test_32x32.mat"]),
    "cub200": (official.write_cub, [f"CUB_200_2011/{name}.txt" for name in TABLES]),
}
FILES = [(name, file) for name, (_, files) in SETS.items() for file in files]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("scipy")
    base = tmp_path_factory.mktemp("official")
    for name, (write, _) in SETS.items():
        write(base / name)
    return base


@given(st.sampled_from(FILES), st.data())
@fuzz
def test_damaged_files(sets: Path, case: tuple[str, str], data: st.DataObject) -> None:
    name, file = case
    path = sets / name / file
    original = path.read_bytes()
    try:
        path.write_bytes(data.draw(damaged(original)))
        with reading():
            images = load(f"{name}", "test", root=sets / name)
            side = images.preprocessing.image_size
            assert images.pixels(0).shape == (3, side, side)
            assert 0 <= images.labels.min() <= images.labels.max() < images.num_classes
    finally:
        path.write_bytes(original)
