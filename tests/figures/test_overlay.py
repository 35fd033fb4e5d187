import numpy as np
import pytest
import torch
from matplotlib import colormaps
from PIL import Image

from aib.errors import AibError
from aib.figures.overlay import COLORS, DARK, color_table, enlarge, kept, overlay

IMAGE = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
RAMP = torch.linspace(0.2, 0.4, 120).reshape(12, 10)


def test_alpha_mixes_image_and_colours():
    assert np.array_equal(overlay(IMAGE, RAMP, alpha=0), IMAGE)
    colors = overlay(IMAGE, RAMP, "magma", alpha=1)
    expected = colormaps["magma"](np.linspace(0, 1, 120, dtype=np.float32))[:, :3] * 255
    assert abs(colors.reshape(-1, 3) - expected).max() <= 4  # one step of the colormap
    half = overlay(IMAGE, RAMP, "magma", alpha=0.5)
    assert abs(half.astype(float) - (IMAGE / 2 + colors / 2)).max() <= 1
    assert half.dtype == np.uint8 and half.shape == (12, 10, 3)


def test_what_a_mask_keeps_stands_on_a_dark_ground():
    shares = np.random.default_rng(1).random((12, 10))
    shares[0, 0], shares[1, 1] = 0, 1
    expected = shares[:, :, None] * IMAGE + (1 - shares[:, :, None]) * DARK
    assert abs(kept(IMAGE, shares).astype(float) - expected).max() <= 0.51
    assert (kept(IMAGE, shares)[0, 0] == DARK).all()
    assert np.array_equal(kept(IMAGE, np.ones((3, 3))), IMAGE)


@pytest.mark.parametrize("name", [*COLORS, "gray"])
def test_colours_are_those_of_matplotlib(name):
    expected = 255 * colormaps[name](np.arange(256))[:, :3]
    assert abs(color_table(name) - expected).max() <= 0.5


def test_every_kind_of_image_gives_the_same_picture():
    expected = overlay(IMAGE, RAMP)
    tensor = torch.from_numpy(IMAGE).permute(2, 0, 1)
    for image in (Image.fromarray(IMAGE), tensor, tensor.float() / 255, tensor.double() / 255):
        assert np.array_equal(overlay(image, RAMP.numpy()), expected)


def test_a_small_map_is_resized_and_a_flat_one_not_spread():
    small = overlay(IMAGE, torch.tensor([[0.0, 1.0]]), alpha=1)
    assert (small[:, :2] == small[0, 0]).all() and (small[:, -2:] == small[0, -1]).all()
    flat = overlay(IMAGE, torch.full((3, 3), 0.25), "gray", alpha=1)
    assert (abs(flat.astype(int) - 64) <= 1).all()


@pytest.mark.parametrize(
    ("image", "map", "message"),
    [
        (IMAGE[:, :, 0], RAMP, r"not uint8 \[12, 10\]"),
        (IMAGE / 255, RAMP, "not float64"),
        (torch.rand(1, 3, 4, 4), RAMP, r"\[3,H,W\]"),
        (torch.randn(3, 4, 4) * 5, RAMP, "undo its normalisation"),
        (IMAGE, RAMP[None], r"\[h,w\].*\[1, 12, 10\]"),
        (IMAGE, RAMP * torch.nan, "finite"),
    ],
)
def test_bad_input_is_named(image, map, message):
    with pytest.raises(AibError, match=message):
        overlay(image, map)


def test_a_pixel_has_the_level_that_its_centre_lies_in():
    levels = torch.arange(3).expand(1, 3, 3)
    large = enlarge(levels, (8, 8))
    assert large[0, 0].tolist() == [0, 0, 0, 1, 1, 2, 2, 2]  # centres at 1/16, 3/16, ...
    assert torch.equal(large.flip(2), enlarge(levels.flip(2), (8, 8)))
    halves = enlarge(torch.arange(2).expand(1, 2, 2), (41, 41))[0, 0]
    assert halves.bincount().tolist() == [20, 21]  # the middle one lies in the second, as in masks
