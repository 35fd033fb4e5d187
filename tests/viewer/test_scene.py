"""The picture, its blocks, its explanations, and files that cannot be shown."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.viewer.scene import Viewer, block, mean_colour, paint
from tests.data.official import bomb
from tests.helpers import photo
from tests.viewer.fixtures import opened, viewer


@given(st.integers(0, 511), st.integers(0, 511), st.sampled_from([4, 8, 12, 16]))
def test_a_block_has_its_full_size_inside_the_image_wherever_the_click_was(x, y, p):
    box = block((x + 0.5) / 512, (y + 0.5) / 512, p / 32, 32, 32)
    black = torch.zeros(3, 32, 32, dtype=torch.uint8)
    white = torch.full((3,), 255, dtype=torch.uint8)
    covered = paint(black, box, (0, 0, 1, 1), white)[0].bool()
    rows, columns = covered.any(1).nonzero(), covered.any(0).nonzero()
    assert len(rows) == len(columns) == p and int(covered.sum()) == p * p
    # centred on the click, less what the border takes
    assert abs(float(columns.float().mean()) + 0.5 - np.clip((x + 0.5) / 16, p / 2, 32 - p / 2)) < 1
    assert abs(float(rows.float().mean()) + 0.5 - np.clip((y + 0.5) / 16, p / 2, 32 - p / 2)) < 1


def test_painting_by_brute_force_in_a_part_of_the_image():
    pixels = torch.randint(256, (3, 10, 14), dtype=torch.uint8)
    box, part = (0.3, 0.2, 0.62, 0.9), (0.25, 0.1, 0.75, 1.0)
    colour = torch.tensor([1, 2, 3], dtype=torch.uint8)
    found = paint(pixels, box, part, colour)
    for row in range(10):
        for column in range(14):
            x = 0.25 + (column + 0.5) / 14 * 0.5
            y = 0.1 + (row + 0.5) / 10 * 0.9
            inside = 0.3 <= x < 0.62 and 0.2 <= y < 0.9
            expected = colour if inside else pixels[:, row, column]
            assert torch.equal(found[:, row, column], expected)


def test_blocks_lie_over_the_same_things_for_a_model_that_crops(tmp_path):
    """A red patch in the middle of a wide photograph is hidden from both models."""
    image = Image.new("RGB", (96, 64), "blue")
    image.paste("red", (40, 24, 56, 40))
    run, other = opened(tmp_path), opened(tmp_path, "tiny_aib")
    other.model.preprocessing = Preprocessing(64, "crop", mean=(0.2, 0.4, 0.6))
    page = Viewer([run, other], (1, 1))
    scene = page.show(image, "photo")
    assert all((p[0] > 200).any() for p in page.inputs(scene))
    covered = page.cover(scene, 0.5, 0.5, 0.3)
    assert not any((p[0] > 200).any() for p in page.inputs(covered))
    assert page.shown(covered).shape == page.shown(covered, 0).shape == (64, 96, 3)
    # The second model sees the centre as it is shown; the block is 0.3 of the height.
    for one in (scene, covered):
        cropped = page.inputs(one)[1].permute(1, 2, 0).numpy()
        assert np.array_equal(page.shown(one, 1), cropped)
    hidden = (cropped == (51, 102, 153)).all(-1)  # its mean colour
    assert hidden.any(0).sum() == hidden.any(1).sum() == 20
    for before, now in zip(scene.now, covered.now, strict=True):
        assert not torch.equal(before.probabilities, now.probabilities)
    assert page.uncover(covered).now is covered.before is scene.before


@pytest.mark.parametrize("size", [(512, 1), (1, 512), (512, 511), (7, 4)])
def test_the_picture_of_a_model_that_crops_is_square(size, tmp_path):
    page = viewer(tmp_path)
    page.runs[0].model.preprocessing = Preprocessing(image_size=32, resize="crop")
    scene = page.show(Image.new("RGB", size), "thin")
    assert page.shown(scene, 0).shape == (min(size), min(size), 3)
    assert page.shown(scene).shape == (size[1], size[0], 3)  # to click on


def test_a_large_picture_is_shown_smaller_and_stays_as_it_is(tmp_path):
    """An example is shown again."""
    image = Image.new("RGB", (1024, 300))
    scene = viewer(tmp_path).show(image, "wide")
    assert image.size == scene.size == (1024, 300) and scene.shown.shape == (150, 512, 3)


def test_a_block_that_hides_nothing_changes_nothing(tmp_path):
    """The noise is the same, so that blocks are the only cause of a change."""
    page = viewer(tmp_path)
    colour = tuple(mean_colour(page.runs[0].model.preprocessing).tolist())
    scene = page.show(Image.new("RGB", (32, 32), colour), "flat")
    covered = page.cover(scene, 0.4, 0.6, 0.5)
    assert torch.equal(covered.now[0].probabilities, scene.before[0].probabilities)
    assert torch.equal(covered.now[0].sample_maps, scene.before[0].sample_maps)


def send(folder, name: str, content: bytes):
    path = folder / "somewhere on the server" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("note.txt", b"hello", "note.txt is not an image of any known format"),
        ("cut.png", bomb(20), "cut.png cannot be read as an image"),
        ("bomb.png", bomb(60000), "bomb.png claims more than 40,000,000 pixels"),
    ],
)
def test_a_bad_file_gives_a_readable_error(tmp_path, name, content, message):
    with pytest.raises(AibError) as caught:
        viewer(tmp_path).read(send(tmp_path, name, content))
    assert str(caught.value).startswith(message)
    assert "server" not in str(caught.value) and "\n" not in str(caught.value)


def test_uncertainty_by_hand(tmp_path):
    page = viewer(tmp_path, samples=(3, 5))
    model, scene = page.runs[0].model, page.show(photo(32, 32), "photo")
    torch.manual_seed(0)
    with torch.no_grad():
        out = model(model.preprocessing.normalise(page.inputs(scene)[0][None]), (3, 5))
    each = out.sample_logits.softmax(-1).reshape(15, 10).double().numpy()
    mean, found = each.mean(0), scene.now[0]

    def entropy(p):
        return -(p * np.log2(p)).sum(-1)

    assert float(found.entropy_bits) == pytest.approx(entropy(mean), rel=1e-4)
    expected = entropy(mean) - entropy(each).mean()
    assert float(found.disagreement_bits) == pytest.approx(expected, abs=1e-4)
    assert found.spread[0].numpy() == pytest.approx(each.std(0, ddof=1), rel=1e-3)
    variance, mu = out.latent.sigma.double() ** 2, out.latent.mu.double()
    nats = 0.5 * (variance + mu**2 - 1 - variance.log()).sum(-1).mean()
    assert float(found.kl_bits) == pytest.approx(float(nats) / np.log(2), rel=1e-4)
    assert torch.equal(found.sample_maps, out.attention.a_q)
