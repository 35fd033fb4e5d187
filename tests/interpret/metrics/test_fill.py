"""Holes that objects leave, filled from outside."""

import math

import pytest
import torch

from aib.interpret.metrics.fill import fill_hole


def images_and_masks(count=6, size=(10, 12), seed=0):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 3, *size, generator=generator)
    masks = torch.zeros(count, *size, dtype=torch.bool)
    for number, mask in enumerate(masks):  # larger and larger squares, none in the first image
        mask[2 : 2 + number, 3 : 3 + number] = True
    return images, masks


def grown(mask, reach):
    """Every pixel with a pixel of the mask in its square neighbourhood."""
    return torch.tensor([
        [bool(mask[max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1].any())
         for x in range(mask.shape[1])] for y in range(mask.shape[0])
    ])  # fmt: skip


def slow_fill(image, hole):
    """The same by loops over pixels: [3,H,W] and bool [H,W]."""
    values = {(y, x): image[:, y, x] for y, x in (~hole).nonzero().tolist()}
    sigma = 0.02 * image.shape[2]
    while len(values) < hole.numel():
        new = {}
        for y, x in hole.nonzero().tolist():
            if (y, x) in values:
                continue
            weights = {at: math.exp(-((at[0] - y) ** 2 + (at[1] - x) ** 2) / (2 * sigma**2))
                       for at in values}  # fmt: skip
            total = sum(weights.values())
            if total >= 0.5:
                new[y, x] = sum(weight * values[at] for at, weight in weights.items()) / total
        values |= new
        sigma *= 2
    rows = [[values[y, x] for x in range(hole.shape[1])] for y in range(hole.shape[0])]
    return torch.stack([torch.stack(row) for row in rows]).permute(2, 0, 1)


def test_holes_are_filled_as_by_loops_over_the_pixels():
    images, masks = images_and_masks()
    for image, mask, filled in zip(images, masks, fill_hole(images, masks), strict=True):
        hole = grown(mask, 1)
        expected = slow_fill(image.double(), hole).float()
        assert torch.allclose(filled, expected, atol=1e-5)
        assert torch.equal(filled[:, ~hole], image[:, ~hole]), "nothing else changes"


def test_filled_pixels_lie_between_those_around_the_hole():
    images, masks = images_and_masks(size=(48, 64), seed=1)
    masks[5, 4:40] = True  # a large hole
    for image, mask, filled in zip(images, masks, fill_hole(images, masks), strict=True):
        around = image[:, ~grown(mask, 2)]  # 2% of 64 pixels, rounded up
        assert bool((filled.amin((1, 2)) >= around.amin(1) - 1e-5).all())
        assert bool((filled.amax((1, 2)) <= around.amax(1) + 1e-5).all())


def test_what_the_hole_hid_leaves_no_trace():
    images, masks = images_and_masks()
    other = torch.where(masks[:, None], 1000.0, images)
    assert torch.equal(fill_hole(images, masks), fill_hole(other, masks))


def test_a_constant_image_stays_constant():
    _, masks = images_and_masks()
    for value in (0.0, 200.0):
        filled = fill_hole(torch.full((6, 3, 10, 12), value), masks)
        assert torch.allclose(filled, torch.full_like(filled, value), rtol=1e-5)


@pytest.mark.parametrize("left", [0, 1])
def test_a_hole_without_surroundings_gets_one_colour(left):
    """That of the image's mean, or of the only pixel that is known."""
    image = torch.rand(1, 3, 9, 9)
    mask = torch.ones(1, 9, 9, dtype=torch.bool)
    if left:
        mask[0, :2, :2] = False  # of which the hole, which is larger, leaves one pixel
    filled = fill_hole(image, mask)
    colour = image[:, :, 0, 0] if left else image.mean((2, 3))
    assert torch.allclose(filled, colour[:, :, None, None].expand_as(filled), atol=1e-5)
