"""Errors of names, official files and arrays: one line that names the problem."""

import numpy as np
import pytest
import torch
from PIL import Image

from aib.cli import main
from aib.data import ImageSet, load
from aib.errors import AibError, AibWarning
from tests.data import official


def test_what_cannot_be_fetched_exits_with_one_line(capsys):
    for name, named in (
        ("mnist", "aib data list"),
        ("shapes", "shapes is generated"),
        ("folder:empty", "folder:empty is read where it is"),
    ):
        assert main(["data", "fetch", name]) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert named in line


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("cifar11", "cifar10"),
        ("classes:image_size=32", "folder:classes"),
        ("cifar10", "under empty: .*aib data fetch cifar10"),
        ("shapes:cluter=1", "clutter"),
        ("shapes:count=99999999999", "GB"),
        ("shapes:count=0", "count must be an integer of at least 1"),
        ("folder:", "needs a path"),
        ("folder:nowhere", "one sub-folder of images per class"),
        ("folder:classes", "classes has no readable image"),
        ("shapes:holdout=0.2", "no option 'holdout'"),
    ],
)
def test_an_error_names_the_problem_and_the_known_values(tmp_path, monkeypatch, name, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "classes/cat").mkdir(parents=True)
    with pytest.raises(AibError, match=named) as caught:
        load(name, "train", root="empty")
    assert "\n" not in str(caught.value)
    with pytest.raises(AibError, match="val"):
        load("shapes", "valid")


WRITERS = {
    "cifar10": official.write_cifar10,
    "stl10": official.write_stl10,
    "svhn": official.write_svhn,
    "cub200": official.write_cub,
    "pets": official.write_pets,
}
BATCH = "cifar-10-batches-bin/data_batch_3.bin"
BOXES = "CUB_200_2011/bounding_boxes.txt"
BREEDS = "oxford-iiit-pet/annotations/trainval.txt"
DAMAGES = [  # data set, file, how its content changes, the error
    ("cifar10", BATCH, lambda old: None, "_3.bin is missing"),
    ("cifar10", BATCH, lambda old: b"", "_3.bin .*truncated"),
    ("cifar10", BATCH, lambda old: old[:3072], "_3.bin .*truncated"),
    ("cifar10", BATCH, lambda old: bytes([10, *bytes(3072)]), "labels 0 to 10 of 10 classes"),
    ("stl10", "stl10_binary/train_y.bin", lambda old: old[:39], "40 images and 39 labels"),
    ("svhn", "svhn/train_32x32.mat", lambda old: old[:5000], "train_32x32.mat"),
    ("cub200", BOXES, lambda old: old.replace(b"12 10.0 5.0 20.0 15.0", b""), "cub200 are damaged"),
    ("pets", BREEDS, lambda old: old.replace(b"_2 2 2", b"_2 x 2"), "pets are damaged"),
    ("pets", BREEDS, lambda old: old.replace(b"s_2 2 2", b"s_2 5 2"), "labels 0 to 4 of 3 classes"),
    ("pets", BREEDS, lambda old: old.replace(b"_2 1 1 1", b"_2"), "not a table"),
]


@pytest.mark.parametrize(("name", "file", "change", "message"), DAMAGES)
def test_a_damaged_set_is_an_error_that_names_the_file(tmp_path, name, file, change, message):
    WRITERS[name](tmp_path)
    old = (tmp_path / file).read_bytes()
    new = change(old)
    assert new != old
    (tmp_path / file).unlink() if new is None else (tmp_path / file).write_bytes(new)
    with pytest.raises(AibError, match=message):
        load(name, "train", root=tmp_path)


def test_a_split_of_another_size_is_a_warning(tmp_path):
    official.write_cifar10(tmp_path)
    with pytest.warns(AibWarning, match="cifar10 test has 20 of its 10,000 official images"):
        load("cifar10", "test", root=tmp_path)


def bad_images(folder):
    """A truncated JPEG, a file that is no image, a 1 x 1 image, two bombs, a link without its
    target; next to good ones."""
    official.write_folder(folder)
    good = np.zeros((64, 64, 3), np.uint8)
    Image.fromarray(good).save(folder / "class_0/whole.jpg")
    whole = (folder / "class_0/whole.jpg").read_bytes()
    (folder / "class_0/cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "class_1/text.png").write_text("no image")
    Image.new("RGB", (1, 1)).save(folder / "class_1/dot.png")
    (folder / "class_2/bomb.png").write_bytes(official.bomb(11_000))  # above our limit
    (folder / "class_2/huge.png").write_bytes(official.bomb(60_000))  # above Pillow's too
    (folder / "class_2/link.png").symlink_to(folder / "moved.png")
    return {"cut.jpg", "text.png", "dot.png", "bomb.png", "huge.png", "link.png"}


def test_damaged_files_are_named_and_skipped(tmp_path):
    bad = bad_images(tmp_path)
    found = load(f"folder:{tmp_path}", "train", holdout=0)
    assert len(found) == 13 and len(found.skipped) == len(bad)
    assert all(any(file in message for message in found.skipped) for file in bad)


@pytest.mark.parametrize(
    ("images", "labels", "word"),
    [
        (torch.zeros(2, 3, 8, 8), [0, 1], "uint8"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), [0], "2 images and 1 labels"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), [0, 2], "0 to 2"),
        (torch.zeros(0, 3, 8, 8, dtype=torch.uint8), [], "0 images"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), [0.9, 1.0], "labels must be integers"),
    ],
)
def test_tensors_of_the_wrong_form_are_an_error(images, labels, word):
    with pytest.raises(AibError, match=word):
        ImageSet.from_tensors(images, torch.tensor(labels), class_names=("a", "b"))
