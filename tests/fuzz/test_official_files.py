"""Damaged official data files: images of the right form, or an AibError."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
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


def read(name: str, root: Path) -> None:
    """Read the test split: an AibError, or images and labels of the right form."""
    with reading():
        data = load(f"{name}:partial", "test", root=root)
        side = data.preprocessing.image_size
        assert all(data.pixels(i).shape == (3, side, side) for i in range(min(len(data), 3)))
        assert 0 <= int(data.labels.min()) <= int(data.labels.max()) < data.num_classes


@given(st.sampled_from(FILES), st.data())
@fuzz
def test_damaged_files(sets: Path, name_and_file: tuple[str, str], data: st.DataObject) -> None:
    name, file = name_and_file
    path = sets / name / file
    original = path.read_bytes()
    try:
        path.write_bytes(data.draw(damaged(original)))
        read(name, sets / name)
    finally:
        path.write_bytes(original)


simple = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary())
arrays = st.builds(
    np.zeros,
    st.sampled_from([(32, 32, 3, 2), (32, 32, 3), (32, 32, 3, 0), (2, 1), (1, 2), (2,), (0,)]),
    st.sampled_from([np.uint8, np.float64, np.int32, object, bool, "S1", "U1"]),
)
anything = arrays | simple | st.lists(simple, max_size=3)


@given(st.fixed_dictionaries({}, optional={"X": anything, "y": anything, "z": anything}))
@example({"X": np.zeros((32, 32, 3, 0), np.uint8), "y": np.zeros((0,), np.uint8)})
@example({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array(["a", "b"])})
@example({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[None], [[1]]], object)})
@fuzz
def test_matlab_files_of_anything(sets: Path, content: dict[str, Any]) -> None:
    from scipy.io import savemat

    path = sets / "made up" / SETS["svhn"][1][0]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        savemat(path, content)
    except Exception:
        return  # scipy cannot write it
    read("svhn", sets / "made up")


VALUES = {
    "images": "a/b.png 1 /etc/passwd ../x a\0b",
    "image_class_labels": "1 2 0 -1 99999999999999999999 nan x",
    "train_test_split": "0 0 0 1 2",
    "bounding_boxes": "1;2;3;4 1;2;3 nan;nan;nan;nan 1e99;0;-5;inf 9999999;1;1;1 x",
    "classes": "001.Crow 1 . x",
}


def table(name: str) -> st.SearchStrategy[str]:
    """Two rows with correct ids and any values; or any text."""
    value = st.sampled_from(VALUES[name].split(" ")).map(lambda text: text.replace(";", " "))
    rows = st.tuples(value, value).map(lambda pair: f"1 {pair[0]}\n2 {pair[1]}\n")
    return st.one_of(rows, rows, rows, st.text(max_size=20))


@given(st.tuples(*(table(name) for name in TABLES)))
@example(("1 a.png\n2 b.png", "1 1\n2 1", "1 0\n2 0", "1 1 2 3\n2 1 2 3", "1 Crow"))
@example(("1 a.png\n2 b.png", "1 1\n2 1", "1 2\n2 2", "1 1 2 3 4\n2 1 2 3 4", "1 Crow"))
@example(("1 \udcff.png", "1 1", "1 0", "1 1 2 3 4", "1 Crow"))
@fuzz
def test_bird_tables_of_anything(sets: Path, tables: tuple[str, ...]) -> None:
    root = sets / "made up"
    for file, text in zip(SETS["cub200"][1], tables, strict=True):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text, encoding="utf-8", errors="surrogatepass")
    read("cub200", root)
