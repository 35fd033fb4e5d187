import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from aib.errors import AibError
from aib.interpret.metrics import perturb
from aib.interpret.metrics.perturb import modifications

PAPER_MODIFICATIONS = modifications("svhn")


def pixels(count: int = 6, height: int = 32, width: int = 32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, 3, height, width), generator=generator, dtype=torch.uint8)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), st.integers(20, 33), st.integers(20, 33), st.integers(0, 2**40))
def test_a_colour_block_is_one_square_of_one_colour_and_nothing_else_changes(p, h, w, seed):
    images, index = pixels(4, h, w), torch.arange(100, 104)
    modified = perturb.occlude_color(images, index, p, seed=seed)
    mask = perturb.block_mask(index, (h, w), p, seed=seed)
    for before, after, inside in zip(images, modified, mask, strict=True):
        rows, columns = inside.any(1).nonzero()[:, 0], inside.any(0).nonzero()[:, 0]
        assert inside.sum() == p * p
        assert rows[-1] - rows[0] == p - 1 and columns[-1] - columns[0] == p - 1
        assert torch.equal(after[:, ~inside], before[:, ~inside])
        assert (after[:, inside] == after[:, inside][:, :1]).all()


def test_a_foreign_block_is_an_image_of_the_other_set_resized():
    images, index = pixels(5), torch.arange(5)
    foreign = pixels(7, 24, 24, seed=1)
    modified = perturb.occlude_foreign(images, index, 8, foreign, seed=3)
    mask = perturb.block_mask(index, (32, 32), 8, seed=3)
    small = torch.nn.functional.interpolate(
        foreign.float(), size=(8, 8), mode="bilinear", antialias=True
    )
    small = small.round().to(torch.uint8)
    for before, after, inside in zip(images, modified, mask, strict=True):
        assert torch.equal(after[:, ~inside], before[:, ~inside])
        block = after[:, inside].reshape(3, 8, 8)
        assert any(torch.equal(block, candidate) for candidate in small)


@pytest.mark.parametrize("name", list(PAPER_MODIFICATIONS))
def test_modified_images_depend_on_seed_and_index_not_on_the_batch(name):
    images, index, foreign = pixels(9), torch.arange(40, 49), pixels(11, seed=2)
    modify = PAPER_MODIFICATIONS[name]
    whole = modify(images, index, seed=5, foreign=foreign)
    batches = zip(images.split(4), index.split(4), strict=True)
    parts = [modify(x, i, seed=5, foreign=foreign) for x, i in batches]
    assert torch.equal(whole, torch.cat(parts))
    assert whole.dtype == torch.uint8 and whole.shape == images.shape
    if modify.kind in ("color", "foreign"):
        assert not torch.equal(whole, modify(images, index, seed=6, foreign=foreign))


def test_blocks_reach_every_place_about_equally_often():
    corners = perturb.block_corners(torch.arange(20_000), (32, 32), 16)
    counts = (corners[:, 0] * 17 + corners[:, 1]).bincount(minlength=17 * 17)
    assert counts.shape == (289,) and counts.min() > 0.5 * 20_000 / 289


def test_there_are_the_papers_ten_modifications_and_one_more_by_name():
    assert list(modifications("stl10")) == [
        *("color-4", "color-8", "color-12", "color-16"),
        *("stl10-4", "stl10-8", "stl10-12", "stl10-16"),
        *("high-4", "high>4", "low-12"),
    ]


@pytest.mark.parametrize("radius", [4, 12, 16, 20])
def test_the_split_is_that_of_a_centred_spectrum_with_a_disc(radius):
    images = pixels(2)
    low, high = perturb.frequency_split(images, radius)
    spectrum = np.fft.fftshift(np.fft.fft2(images.numpy().astype(float)), axes=(2, 3))
    y, x = np.mgrid[:32, :32]
    disc = np.hypot(y - 16, x - 16) < radius
    reference = np.fft.ifft2(np.fft.ifftshift(spectrum * disc, axes=(2, 3)))
    assert abs(reference.imag).max() < 1e-9
    np.testing.assert_allclose(low.numpy(), reference.real, atol=1e-2)
    np.testing.assert_allclose(high.numpy(), images.numpy() - reference.real, atol=1e-2)


def test_the_two_high_passes_differ_by_the_waves_at_the_radius_alone():
    x = torch.arange(32)
    at, above = (2 * torch.pi * (x[:, None] * u + x * v) / 32 for u, v in ((4, 0), (4, 1)))
    for wave, survives in ((at, False), (above, True)):
        image = (128 + 100 * torch.cos(wave)).round().to(torch.uint8).expand(1, 3, 32, 32)
        for name, kept in (("high-4", True), ("high>4", survives)):
            _, high = perturb.frequency_split(image, PAPER_MODIFICATIONS[name].amount)
            assert (high.abs().amax() > 90) == kept, name


def test_kept_frequencies_fill_0_to_255_unless_the_image_is_constant():
    for kind, radius in (("high", 4), ("low", 12)):
        kept = perturb.keep_frequencies(pixels(), kind, radius)
        assert (kept.amin((2, 3)) == 0).all() and (kept.amax((2, 3)) == 255).all()
    images = torch.full((1, 3, 32, 32), 77, dtype=torch.uint8)
    assert (perturb.keep_frequencies(images, "low", 12) == 77).all()
    assert (perturb.keep_frequencies(images, "high", 4) == 0).all()


def test_bad_input_is_named():
    images, index = pixels(2), torch.arange(2)
    with pytest.raises(AibError, match=r"33 x 33 does not fit inside an image of 32 x 32"):
        perturb.occlude_color(images, index, 33)
    with pytest.raises(AibError, match=r"uint8.*float32"):
        PAPER_MODIFICATIONS["color-4"](images.float(), index)
    with pytest.raises(AibError, match="foreign="):
        PAPER_MODIFICATIONS["svhn-4"](images, index)
