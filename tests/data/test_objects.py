"""Masks go where their images go: crop, resize policy, memory; and the values in their files."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from aib.data import Batches, ImageFiles, ImageSet
from aib.data.decode import open_mask, open_rgb, upright_size
from aib.data.objects import boxes_to_objects, from_user
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
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


@pytest.mark.parametrize("workers", [0, 1])
def test_masks_and_boxes_are_the_same_from_files_and_from_memory(tmp_path, workers):
    data = drawn(tmp_path)
    stored = data.in_memory()
    [lazy], [eager] = Batches(data, 4, workers=workers), Batches(stored, 4)
    for name in ("index", "images", "labels", "objects", "boxes"):
        assert torch.equal(getattr(lazy, name), getattr(eager, name)), name
    assert (lazy.objects[1] == 255).all() and stored.has_outlines
    assert lazy.boxes.tolist() == [[8.0, 0.0, 16.0, 12.0], [0.0, 12.0, 8.0, 24.0]]
    chosen = torch.tensor([1])
    assert torch.equal(stored.subset(chosen).objects[0], lazy.objects[1])
    assert (data.subset(chosen).mask(0) == 255).all() and data.subset(chosen).box(0) is not None
    [beyond] = Batches(replace(stored, boxes=2 * stored.boxes), 4)  # clipped to the image
    assert beyond.boxes.tolist() == [[16.0, 0.0, 24.0, 24.0], [0.0, 24.0, 16.0, 24.0]]


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
    assert torch.equal(stored.objects, three)
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


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[0, 255], [0, 0]], [[0, 1], [0, 0]]),  # white on black
        ([[3, 250], [127, 0]], [[1, 1], [1, 0]]),  # with soft edges
        ([[0, 1], [0, 0]], [[0, 1], [0, 0]]),
        ([[0, 1], [255, 0]], [[0, 1], [255, 0]]),  # a trimap
        ([[0, 0], [0, 0]], [[0, 0], [0, 0]]),
    ],
)
@pytest.mark.parametrize("palette", [False, True])
def test_a_user_s_mask_is_zero_outside_the_object_or_a_trimap(tmp_path, values, expected, palette):
    mask = Image.fromarray(np.array(values, np.uint8))
    if palette:  # as PASCAL VOC's: the values are the indices
        mask.putpalette((0, 0, 0, 128, 0, 0, *[0] * 759, 224, 224, 224))
    mask.save(tmp_path / "mask.png")
    assert np.asarray(open_mask(tmp_path / "mask.png", from_user)).tolist() == expected


def test_boxes_hold_the_pixels_whose_centres_lie_inside():
    nothing = float("nan")
    boxes = torch.tensor([[1, 0, 3, 2], [0.5, 1.5, 2.5, 2.5], [nothing] * 4])
    first, second = boxes_to_objects(boxes, (5, 6)).nonzero().split([4, 2])
    assert first.tolist() == [[0, 0, 1], [0, 0, 2], [0, 1, 1], [0, 1, 2]]
    assert second.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert boxes_to_objects(boxes[:0], (5, 6)).shape == (0, 5, 6)
