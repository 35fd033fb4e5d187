"""The picture, its blocks and its explanations."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from PIL import Image

from aib.data.preprocessing import Preprocessing
from aib.viewer.scene import Viewer, block, paint
from tests.helpers import photo
from tests.viewer.fixtures import opened, viewer


@given(st.integers(0, 511), st.integers(0, 511), st.sampled_from([4, 8, 12, 16]))
def test_a_block_has_its_full_size_inside_the_image_wherever_the_click_was(x, y, p):
    box = block((x + 0.5) / 512, (y + 0.5) / 512, p / 32, 32, 32)
    black = torch.zeros(3, 32, 32, dtype=torch.uint8)
    white = torch.full((3,), 255, dtype=torch.uint8)
    covered = paint(black, box, white)[0].bool()
    rows, columns = covered.any(1).nonzero(), covered.any(0).nonzero()
    assert len(rows) == len(columns) == p and int(covered.sum()) == p * p
    # centred on the click, less what the border takes
    assert abs(float(columns.float().mean()) + 0.5 - np.clip((x + 0.5) / 16, p / 2, 32 - p / 2)) < 1
    assert abs(float(rows.float().mean()) + 0.5 - np.clip((y + 0.5) / 16, p / 2, 32 - p / 2)) < 1


def test_painting_by_brute_force():
    pixels = torch.randint(256, (3, 10, 14), dtype=torch.uint8)
    box, colour = (0.3, 0.2, 0.62, 0.9), torch.tensor([1, 2, 3], dtype=torch.uint8)
    found = paint(pixels, box, colour)
    for row in range(10):
        for column in range(14):
            inside = 0.3 <= (column + 0.5) / 14 < 0.62 and 0.2 <= (row + 0.5) / 10 < 0.9
            expected = colour if inside else pixels[:, row, column]
            assert torch.equal(found[:, row, column], expected)


@pytest.mark.parametrize("resize", ["squash", "crop"])
def test_blocks_hide_the_same_things_in_the_picture_and_from_the_model(tmp_path, resize):
    """A red patch in the middle of a wide photograph."""
    image = Image.new("RGB", (96, 64), "blue")
    image.paste("red", (40, 24, 56, 40))
    run = opened(tmp_path)
    run.model.preprocessing = Preprocessing(64, resize, mean=(0.2, 0.4, 0.6))
    page = Viewer(run.model, run.label)
    scene = page.show(image, "photo")
    covered = page.cover(scene, 0.5, 0.5, 0.3)
    assert page.picture(covered).shape == (64, 96 if resize == "squash" else 64, 3)
    for one, hidden in ((scene, False), (covered, True)):
        assert bool((page.picture(one)[..., 0] > 200).any()) != hidden
    if resize == "crop":  # the model sees the centre as it is shown
        again = page.show(Image.fromarray(page.picture(covered)), "hidden")
        assert torch.equal(again.now.probabilities, covered.now.probabilities)
    mean = (page.picture(covered) == (51, 102, 153)).all(-1)
    assert mean.any(0).sum() in (19, 20) and mean.any(1).sum() in (19, 20)  # 0.3 of the height
    assert not torch.equal(scene.now.probabilities, covered.now.probabilities)
    assert page.uncover(covered).now is covered.before is scene.before


def test_a_block_that_hides_nothing_changes_nothing(tmp_path):
    """The noise is the same, so that blocks are the only cause of a change."""
    page = viewer(tmp_path)
    mean = tuple(round(255 * value) for value in page.policy.mean)
    scene = page.show(Image.new("RGB", (32, 32), mean), "flat")
    covered = page.cover(scene, 0.4, 0.6, 0.5)
    assert torch.equal(covered.now.probabilities, scene.before.probabilities)


def test_uncertainty_by_hand(tmp_path):
    page = viewer(tmp_path, samples=(3, 5))
    model, scene = page.model, page.show(photo(32, 32), "photo")
    torch.manual_seed(0)
    with torch.no_grad():
        out = model(model.preprocessing.normalise(scene.pixels[None]), (3, 5))
    each = out.sample_logits.softmax(-1).reshape(15, 10).double().numpy()
    mean, found = each.mean(0), scene.now

    def entropy(p):
        return -(p * np.log2(p)).sum(-1)

    assert float(found.entropy_bits) == pytest.approx(entropy(mean), rel=1e-4)
    variance, mu = out.latent.sigma.double() ** 2, out.latent.mu.double()
    nats = 0.5 * (variance + mu**2 - 1 - variance.log()).sum(-1).mean()
    assert float(found.kl_bits) == pytest.approx(float(nats) / np.log(2), rel=1e-4)
