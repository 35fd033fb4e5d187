"""Folders of images: classes, splits, masks, image modes, damaged files, options in the name."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from aib.data import Batches, has_split, load
from aib.data.decode import open_rgb
from aib.data.load import parse_name
from aib.errors import AibError
from tests.data import official


def write_masks(root: Path, classes: int = 3, per_class: int = 4, side: int = 40) -> None:
    """White squares in the corner, half as wide as the image."""
    mask = Image.new("L", (side, side))
    mask.paste(255, (0, 0, side // 2, side // 2))
    for label in range(classes):
        (root / f"class_{label}").mkdir(parents=True)
        for number in range(per_class):
            mask.save(root / f"class_{label}/{number}.png")


def test_sub_folders_are_classes_in_alphabetical_order(tmp_path):
    official.write_folder(tmp_path)
    images = load(f"folder:{tmp_path}", "train", holdout=0)
    assert images.class_names == ("class_0", "class_1", "class_2")
    assert images.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert images.images is None and images[0][0].shape == (3, 224, 224)
    small = load(f"folder:{tmp_path}:image_size=32", "train", holdout=0)  # stays in memory
    assert small.images is not None and small.images.shape == (12, 3, 32, 32)
    at_224 = replace(small.preprocessing, image_size=224)  # a model's
    large = load(f"folder:{tmp_path}:image_size=32", holdout=0, preprocessing=at_224)
    assert large.images is None and large[0][0].shape == (3, 224, 224)
    again = load(f"folder:{tmp_path}", holdout=0, preprocessing=small.preprocessing)
    assert again.images is None and torch.equal(again.pixels(0), small.images[0])


def test_own_splits_are_used(tmp_path):
    for split, classes, count in (("train", 3, 5), ("val", 3, 2), ("test", 2, 3)):
        official.write_folder(tmp_path / split, classes, count)
    name = f"folder:{tmp_path}"
    counts = {s: len(load(name, s)) for s in ("train", "val", "test")}
    assert counts == {"train": 15, "val": 6, "test": 6}
    assert load(name, "test").num_classes == 3  # test images may lack a class
    assert load(name, "val").keys[0] == "val/class_0/0.png"
    assert has_split(name, "test") and not has_split(f"{name}/train", "test")


@pytest.mark.parametrize(
    ("files", "split", "why"),
    [
        ("cat/ dog/1", "train", "'cat' has no readable image"),
        ("1 2", "train", "no sub-folders"),
        ("test/cat/1 test/dog/1", "train", "test/cat/1.png lies in a sub-folder of a class"),
        ("Train/cat/1 Test/cat/1", "train", "in a sub-folder of a class"),
        ("images/cat/1 images/dog/1 masks/cat/1", "train", "in a sub-folder of a class"),
        ("cat/1 dog/1", "test", "no images in 'test'"),
        ("cat/1 train/1", "train", "no sub-folders"),  # a class called train
        ("train/cat/1 train/dog/1 test/cow/1", "test", "train/ lacks its class 'cow'"),
    ],
)
def test_any_other_folder_is_an_error_that_states_the_contract(tmp_path, files, split, why):
    for file in files.split():
        path = tmp_path / file
        if file.endswith("/"):
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20)).save(path.with_suffix(".png"))
    contract = r"one sub-folder of images per class, optionally below train/, val/ and test/"
    with pytest.raises(AibError, match=f"{contract}.*: .*{why}"):
        load(f"folder:{tmp_path}", split, holdout=0)


def test_hidden_files_and_folders_are_no_images(tmp_path):
    home = tmp_path / ".home"  # a hidden folder above the images does not matter
    official.write_folder(home)
    for folder in ("class_0/.thumbnails", ".thumbnails"):
        (home / folder).mkdir()
        Image.new("RGB", (20, 20)).save(home / folder / "0.png")
    Image.new("RGB", (20, 20)).save(home / "class_0/.0.png")
    data = load(f"folder:{home}", "train", holdout=0)
    assert len(data) == 12 and data.class_names == ("class_0", "class_1", "class_2")


def test_photographs_of_formats_that_are_not_read_are_reported(tmp_path):
    official.write_folder(tmp_path, classes=2, per_class=2)
    Image.new("RGB", (8, 8)).save(tmp_path / "class_0" / "saved.jfif", "JPEG")
    (tmp_path / "class_0" / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    images = load(f"folder:{tmp_path}", "train", holdout=0)
    assert "class_0/saved.jfif" in images.keys and len(images) == 5
    [message] = images.skipped
    assert "phone.HEIC is not an image of any known format (PNG, JPEG" in message
    assert message in images.describe_skipped()


@pytest.mark.parametrize("layout", ["flat", "split"])
def test_masks_lie_below_masks_at_the_path_of_their_image(tmp_path, layout):
    inner = "" if layout == "flat" else "train"
    official.write_folder(tmp_path / inner)
    write_masks(tmp_path / "masks" / inner)
    (tmp_path / "masks" / inner / "class_1/2.png").unlink()
    data = load(f"folder:{tmp_path}:image_size=80", "train", holdout=0)
    assert data.class_names == ("class_0", "class_1", "class_2") and len(data) == 12
    assert (data.mask(6) == 255).all() and (data.mask(0)[:40, :40] == 1).all()
    assert data.mask(0).sum() == 40 * 40 and data.has_outlines


def test_masks_of_no_image_are_an_error_and_those_of_another_split_are_not(tmp_path):
    for split in ("train", "test"):
        official.write_folder(tmp_path / split, classes=2)
    write_masks(tmp_path / "masks/train", classes=2)
    name = f"folder:{tmp_path}"
    assert load(name, "train").has_objects and not load(name, "test").has_objects
    (tmp_path / "masks/train").rename(tmp_path / "masks/training")
    for split in ("train", "test"):
        with pytest.raises(AibError, match=f"path of an image, such as .*masks/{split}/class_0/"):
            load(name, split)


def test_a_mask_of_another_size_is_an_error(tmp_path):
    official.write_folder(tmp_path)
    write_masks(tmp_path / "masks")
    Image.new("L", (39, 40)).save(tmp_path / "masks/class_1/3.png")
    with pytest.raises(AibError, match=r"class_1/3.png is \(39, 40\) pixels, and its image \(40"):
        list(Batches(load(f"folder:{tmp_path}", "train", holdout=0), 4))


@pytest.mark.parametrize(
    ("image", "shade"),
    [
        (Image.fromarray(np.full((4, 4), 32_768, np.uint16)), 127),
        (Image.new("RGBA", (4, 4), (255, 0, 0, 0)), 255),
        (Image.new("LA", (4, 4), (99, 0)), 255),
        (Image.new("RGBA", (4, 4), (255, 0, 0, 0)).convert("P"), 255),
    ],
)
def test_sixteen_bits_are_scaled_and_transparent_pixels_white(tmp_path, image, shade):
    image.save(tmp_path / "image.png")
    assert open_rgb(tmp_path / "image.png").getpixel((0, 0)) == (shade,) * 3


def test_a_name_may_hold_a_path_with_colons_and_options():
    assert parse_name("folder:/a:b/c")[1].as_posix() == "/a:b/c"
    kind, path, options = parse_name("folder:/a:b/c:image_size=64,resize=crop")
    assert (kind, path.as_posix()) == ("folder", "/a:b/c")
    assert options == {"image_size": "64", "resize": "crop"}
    assert parse_name("shapes_spurious:size=small")[2] == {"size": "small", "spurious": "true"}
