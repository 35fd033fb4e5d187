"""Masks go where their images go: crop, resize policy, memory; and those of a folder."""

import re
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from aib.cli import main
from aib.data import Batches, ImageFiles, ImageSet, load
from aib.data.decode import open_mask, open_rgb, upright_size
from aib.data.folder import images_without_objects
from aib.data.objects import from_user
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, AibWarning
from tests.data import official
from tests.helpers import pixels

BLOCKS = torch.tensor([[0, 1, 255], [1, 0, 0]], dtype=torch.uint8)
COLOURS = {0: (0, 0, 250), 1: (250, 0, 0), 255: (0, 250, 0)}  # of background, object, ignored


def blocks(size: int = 20) -> np.ndarray:
    """A mask of 3 x 2 blocks."""
    return np.kron(BLOCKS.numpy(), np.ones((size, size), np.uint8))


def picture(mask: np.ndarray) -> Image.Image:
    """An image that shows each value of the mask in its colour."""
    pixels = np.zeros((*mask.shape, 3), np.uint8)
    for value, colour in COLOURS.items():
        pixels[mask == value] = colour
    return Image.fromarray(pixels)


def values_of(pixels: torch.Tensor) -> torch.Tensor:
    """The mask that an image [3,H,W] shows, by its strongest colour."""
    return torch.tensor([1, 255, 0], dtype=torch.uint8)[pixels.int().argmax(0)]


def agree(mask: torch.Tensor, pixels: torch.Tensor) -> bool:
    """Whether they agree, but for the rows and columns where blurred blocks meet."""
    differs = mask != values_of(pixels)
    return float(differs.float().mean()) < 0.1 and set(mask.unique().tolist()) <= {0, 1, 255}


def drawn(tmp_path, resize="squash", crops=None, size=24) -> ImageSet:
    picture(blocks()).save(tmp_path / "image.png")
    Image.fromarray(blocks()).save(tmp_path / "mask.png")
    return ImageSet(
        name="drawn",
        split="test",
        labels=torch.tensor([0, 1]),
        preprocessing=Preprocessing(image_size=size, resize=resize, class_names=("a", "b")),
        files=ImageFiles(
            (tmp_path / "image.png",) * 2,
            crops,
            objects=(tmp_path / "mask.png", None),
            object_values=from_user,
        ),
        boxes=None if crops is not None else torch.tensor([[20.0, -3, 40, 20], [0, 20, 20, 90]]),
    )


@pytest.mark.parametrize("resize", ["squash", "crop"])
@pytest.mark.parametrize("size", [24, 96])
def test_a_mask_is_resized_by_the_policy_of_its_image(tmp_path, resize, size):
    data = drawn(tmp_path, resize, size=size)
    assert agree(data.mask(0), data.pixels(0)) and data.mask(0).dtype == torch.uint8
    left, top, right, bottom = (data.box(0)).round().int().tolist()
    assert (data.mask(0)[top:bottom, left:right] == 1).all()
    height, width = round(size / 2), round(size / 3) if resize == "squash" else round(size / 2)
    assert (bottom - top, right - left) == (height, width)


@pytest.mark.parametrize("box", [[10.0, 0, 60, 30], [20, 10, 70, 50], [-5, -5, 41, 20]])
def test_a_mask_is_cropped_with_its_image(tmp_path, box):
    data = drawn(tmp_path, crops=torch.tensor([box] * 2))
    assert agree(data.mask(0), data.pixels(0))
    assert not torch.equal(data.mask(0), drawn(tmp_path).mask(0))


def test_a_part_has_its_own_crops(tmp_path):
    boxes = torch.tensor([[0.0, 0, 9, 9], [4.6, 2.4, 40.4, 30.6]])
    part = drawn(tmp_path, crops=boxes).subset(torch.tensor([1]))
    assert part.files.decode(0).tobytes() == picture(blocks()).crop((5, 2, 40, 31)).tobytes()


@pytest.mark.parametrize("workers", [0, 1])
def test_masks_and_boxes_are_the_same_from_files_and_from_memory(tmp_path, workers):
    data = drawn(tmp_path)
    stored = data.in_memory()
    [lazy], [eager] = Batches(data, 4, workers=workers), Batches(stored, 4)
    for name in ("index", "images", "labels", "objects", "boxes"):
        assert torch.equal(getattr(lazy, name), getattr(eager, name)), name
    assert (lazy.objects[1] == 255).all() and not stored.has_only_boxes
    assert lazy.boxes.tolist() == [[8.0, 0.0, 16.0, 12.0], [0.0, 12.0, 8.0, 24.0]]
    chosen = torch.tensor([1])
    assert torch.equal(stored.subset(chosen).objects[0], lazy.objects[1])
    assert data.subset(chosen).mask(0) is None and data.subset(chosen).box(0) is not None
    [beyond] = Batches(replace(stored, boxes=2 * stored.boxes), 4)  # clipped to the image
    assert beyond.boxes.tolist() == [[16.0, 0.0, 24.0, 24.0], [0.0, 24.0, 16.0, 24.0]]


def test_resized_in_memory_masks_and_boxes_follow_the_images(tmp_path):
    small, large = (drawn(tmp_path, size=size).in_memory() for size in (24, 48))
    moved = small.prepared_for(large.preprocessing)
    assert torch.equal(moved.objects, large.objects) and torch.equal(moved.boxes, large.boxes)


@pytest.mark.parametrize("size", [20, 40])
def test_images_and_masks_in_memory_are_resized_as_pillow_does(size):
    images, objects = pixels(4, 30), (pixels(4, 30, seed=1)[:, 0] > 127).to(torch.uint8)
    data = ImageSet.from_tensors(images, [0, 1, 0, 1], class_names="ab", objects=objects)
    found = data.prepared_for(Preprocessing(size, class_names=("other", "names")))
    assert found.class_names == ("a", "b")
    for i in range(4):
        image, mask = Image.fromarray(images[i].permute(1, 2, 0).numpy()), objects[i].numpy()
        image = image.resize((size, size), Image.Resampling.BILINEAR)
        mask = Image.fromarray(mask).resize((size, size), Image.Resampling.NEAREST)
        gap = found.images[i].permute(1, 2, 0).int() - torch.from_numpy(np.array(image)).int()
        assert gap.abs().max() <= 1 and gap.float().mean().abs() < 0.3
        assert np.array_equal(found.objects[i], np.array(mask))


def test_tensors_may_be_bool_or_hold_ignored_pixels():
    images, labels = torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.tensor([0, 1])
    objects = torch.zeros(2, 4, 4, dtype=torch.bool)
    objects[0, 1] = True
    data = ImageSet.from_tensors(images, labels, objects=objects)
    assert data.objects.dtype == torch.uint8 and torch.equal(data.objects == 1, objects)
    three = objects.to(torch.uint8)
    three[0, 3] = 255
    stored = ImageSet.from_tensors(images, labels, objects=three)
    assert torch.equal(stored.objects, three) and stored.has_object().all()
    for wrong in (objects.to(torch.uint8) * 255, objects.to(torch.uint8) * 7):
        with pytest.raises(AibError, match="1 for the object and 255"):
            ImageSet.from_tensors(images, labels, objects=wrong)
    with pytest.raises(AibError, match=r"objects must be uint8 \[2, 4, 4\]"):
        ImageSet.from_tensors(images, labels, objects=objects[:, :3])


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", [1, 3, 5, 6, 7, 8])
def test_the_size_of_a_turned_photograph_is_known_without_decoding(tmp_path, suffix, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (20, 10)).save(tmp_path / f"a.{suffix}", exif=exif)
    upright = (20, 10) if orientation < 5 else (10, 20)
    assert upright_size(tmp_path / f"a.{suffix}") == upright
    assert open_rgb(tmp_path / f"a.{suffix}").size == upright
    assert open_mask(tmp_path / f"a.{suffix}", lambda values: values).size == upright


def write_masks(root, classes=3, per_class=4, side=40):
    """White squares in the corner, as large as half of the image."""
    mask = Image.new("L", (side, side))
    mask.paste(255, (0, 0, side // 2, side // 2))
    for label in range(classes):
        (root / f"class_{label}").mkdir(parents=True)
        for number in range(per_class):
            mask.save(root / f"class_{label}/{number}.png")


@pytest.mark.parametrize("layout", ["flat", "inside", "beside"])
def test_a_folder_may_have_masks_and_they_are_no_class(tmp_path, layout):
    top = tmp_path if layout == "flat" else tmp_path / "train"
    official.write_folder(top)
    objects = tmp_path / "masks/train" if layout == "beside" else top / "masks"
    write_masks(objects)
    (objects / "class_1/2.png").unlink()
    data = load(f"folder:{tmp_path}:image_size=80", "train", holdout=0)
    assert data.class_names == ("class_0", "class_1", "class_2") and len(data) == 12
    assert data.mask(6) is None and (data.mask(0)[:40, :40] == 1).all()
    assert data.mask(0).sum() == 40 * 40 and not data.has_only_boxes


def test_masks_without_an_image_are_counted_in_a_warning(tmp_path):
    official.write_folder(tmp_path)
    write_masks(tmp_path / "masks")
    stray = tmp_path / "masks/class_1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # every mask has its image
        load(f"folder:{tmp_path}", "train")
    (tmp_path / "class_0/0.png").write_bytes(b"damaged")  # it still is the image of its mask
    (stray / "0.png").rename(stray / "0_mask.png")
    (stray / "1.png").rename(stray / "1.jpg")
    message = f"2 of the masks in {tmp_path / 'masks'} are not used, such as {stray}/0_mask.png: "
    with pytest.warns(AibWarning, match=re.escape(message)):
        data = load(f"folder:{tmp_path}", "train", holdout=0)
    assert data.files.objects.count(None) == 2
    sheet = str(tmp_path / "sheet.png")
    command = [sys.executable, "-m", "aib", "data", "show", f"folder:{tmp_path}", "--out", sheet]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert shown.startswith(f"warning: {message}")


def test_masks_among_the_images_of_a_class_are_warned_of(tmp_path):
    official.write_folder(tmp_path, classes=2)
    for name in ("0_mask", "0_mask_1", "gas_mask"):  # the last is a photograph
        Image.new("L", (40, 40)).save(tmp_path / f"class_1/{name}.png")
    message = r"2 of the images look like masks, such as .*class_1/0_mask.png"
    with pytest.warns(AibWarning, match=message):
        assert len(load(f"folder:{tmp_path}", "train", holdout=0)) == 11


def test_masks_that_could_be_of_any_split_are_warned_of(tmp_path):
    for split in ("train", "test"):
        official.write_folder(tmp_path / split, classes=2)
    write_masks(tmp_path / "masks", classes=2)
    with pytest.warns(AibWarning, match=r"masks are not used: .* test belong in .*masks/test"):
        assert not load(f"folder:{tmp_path}", "test").has_objects


def test_a_class_may_be_called_masks(tmp_path):
    official.write_folder(tmp_path, classes=2)
    official.write_folder(tmp_path / "masks", classes=1)
    (tmp_path / "masks/class_0").rename(tmp_path / "masks/masks")
    data = load(f"folder:{tmp_path}", "train", holdout=0)
    assert data.class_names == ("class_0", "class_1", "masks") and not data.has_objects
    assert set(images_without_objects(tmp_path)) == set(data.files.paths)


def test_a_folder_of_all_the_classes_is_no_class(tmp_path):
    official.write_folder(tmp_path, classes=2, per_class=2)
    write_masks(tmp_path / "Masks", classes=2, per_class=2)
    with pytest.raises(AibError, match=r"Masks has a sub-folder for each .* belong in .*masks"):
        load(f"folder:{tmp_path}", "train")


def test_images_and_masks_side_by_side_are_no_two_classes(tmp_path):
    official.write_folder(tmp_path / "images", classes=2, per_class=2)
    write_masks(tmp_path / "masks", classes=2, per_class=2)
    with pytest.raises(AibError, match=r"masks of the folders in .*images: .* up into"):
        load(f"folder:{tmp_path}", "train")


@pytest.mark.parametrize("names", ["images masks", "Imgs mask"])
def test_images_and_masks_without_classes_are_no_two_classes(tmp_path, names):
    official.write_folder(tmp_path, classes=2, per_class=2)
    for label, name in enumerate(names.split()):
        (tmp_path / f"class_{label}").rename(tmp_path / name)
    with pytest.raises(AibError, match=r"are no classes: .* one sub-folder per class"):
        load(f"folder:{tmp_path}", "train")


def test_a_mask_of_another_size_or_none_that_fits_is_an_error(tmp_path):
    official.write_folder(tmp_path)
    write_masks(tmp_path / "masks")
    Image.new("L", (39, 40)).save(tmp_path / "masks/class_1/3.png")
    with pytest.raises(
        AibError, match=r"masks/class_1/3.png is 39 x 40 pixels and its image .*40 x"
    ):
        load(f"folder:{tmp_path}", "train")
    assert main(["data", "verify", f"folder:{tmp_path}"]) == 2
    unchecked = load(f"folder:{tmp_path}:check=false", "train", holdout=0)
    with pytest.raises(AibError, match="39 x 40"):
        list(Batches(unchecked, 4))
    for path in (tmp_path / "masks").rglob("*.png"):
        path.rename(path.with_name(f"mask_{path.name}"))
    with pytest.raises(AibError, match=r"none of the images: that of .*0.png would be .*masks"):
        load(f"folder:{tmp_path}", "train")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[0, 255], [0, 0]], [[0, 1], [0, 0]]),
        ([[0, 1], [0, 0]], [[0, 1], [0, 0]]),
        ([[0, 1], [255, 0]], [[0, 1], [255, 0]]),
        ([[3, 250], [127, 128]], [[0, 1], [0, 1]]),
        ([[0, 0], [0, 0]], [[0, 0], [0, 0]]),
        ([[0, 2], [3, 0]], None),
        ([[0, 2], [255, 0]], None),  # class 2 of PASCAL VOC with its border
    ],
)
def test_a_user_s_mask_is_white_on_black_or_as_ours_or_an_error(tmp_path, values, expected):
    official.write_folder(tmp_path, classes=2, per_class=2)
    write_masks(tmp_path / "masks", classes=2, per_class=1)
    mask = np.kron(np.array(values, np.uint8), np.ones((20, 20), np.uint8))
    Image.fromarray(mask).save(tmp_path / "masks/class_0/0.png")
    data = load(f"folder:{tmp_path}:image_size=80", "train", holdout=0)
    if expected:
        assert data.mask(0)[::40, ::40].tolist() == expected
    else:
        with pytest.raises(AibError, match=r"class_0/0.png is neither"):
            data.mask(0)


@pytest.mark.parametrize(
    ("colours", "expected"),
    [
        ((0, 0, 0, 128, 0, 0), [[0, 1], [255, 0]]),  # PASCAL VOC's: the values are the indices
        ((255, 255, 255, 0, 0, 0), [[1, 0], [1, 1]]),  # black and white in some order
    ],
)
def test_a_mask_with_a_palette_has_its_indices_unless_it_is_grey(tmp_path, colours, expected):
    official.write_folder(tmp_path, classes=2, per_class=2)
    write_masks(tmp_path / "masks", classes=2, per_class=1)
    values = np.kron(np.array([[0, 1], [255, 0]], np.uint8), np.ones((20, 20), np.uint8))
    mask = Image.fromarray(values)
    mask.putpalette((*colours, *[0] * 759, 224, 224, 224))
    mask.save(tmp_path / "masks/class_0/0.png")
    data = load(f"folder:{tmp_path}:image_size=80", "train", holdout=0)
    assert data.mask(0)[::40, ::40].tolist() == expected


@pytest.mark.parametrize(("colour", "mode"), [("white", "RGBA"), ("white", "P"), ("black", "LA")])
def test_a_mask_of_one_colour_has_its_object_where_it_is_opaque(tmp_path, colour, mode):
    mask = Image.new("RGBA", (40, 40), colour)
    mask.putalpha(0)
    mask.paste(colour, (0, 0, 20, 10))
    mask.convert(mode).save(tmp_path / "mask.png")
    assert np.asarray(open_mask(tmp_path / "mask.png", from_user)).sum() == 20 * 10
    Image.new("RGBA", (40, 40), "black").save(tmp_path / "mask.png")  # opaque: no object
    assert not np.asarray(open_mask(tmp_path / "mask.png", from_user)).any()


def test_a_mask_without_object_pixels_follows_the_other_masks_of_its_folder(tmp_path):
    official.write_folder(tmp_path, classes=2, per_class=2)
    write_masks(tmp_path / "masks", classes=2, per_class=2)  # white on black
    name = f"folder:{tmp_path}:image_size=40"
    assert load(name, "train", holdout=0).mask(0).unique().tolist() == [0, 1]
    values = np.zeros((40, 40), np.uint8)
    values[:5] = 255  # a border to ignore
    Image.fromarray(values).save(tmp_path / "masks/class_0/0.png")
    values[20:] = 1
    for other in ("class_0/1", "class_1/0", "class_1/1"):
        Image.fromarray(values).save(tmp_path / f"masks/{other}.png")
    data = load(name, "train", holdout=0)
    assert data.mask(0).unique().tolist() == [0, 255] and (data.mask(0) == 255).sum() == 5 * 40
    assert torch.equal(data.mask(3), torch.from_numpy(values))
