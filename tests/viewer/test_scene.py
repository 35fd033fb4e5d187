"""The picture, its blocks, and files that cannot be shown."""

import io
import json
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from aib.errors import AibError
from aib.preprocessing import Preprocessing
from aib.settings import Settings
from aib.viewer.examples import data_of, find_examples, strangers
from aib.viewer.scene import Block, Viewer, frame_of, mean_colour, paint
from tests.viewer.small import opened, photo, shapes, viewer


@given(st.integers(0, 511), st.integers(0, 511), st.sampled_from([4, 8, 12, 16]))
def test_a_block_has_its_full_size_inside_the_image_wherever_the_click_was(x, y, p):
    block = Block((x + 0.5) / 512, (y + 0.5) / 512, p / 32)
    black = torch.zeros(3, 32, 32, dtype=torch.uint8)
    white = torch.full((3,), 255, dtype=torch.uint8)
    covered = paint(black, block.box(32, 32), (0, 0, 1, 1), white)[0].bool()
    rows, columns = covered.any(1).nonzero(), covered.any(0).nonzero()
    assert len(rows) == len(columns) == p and int(covered.sum()) == p * p
    # centred on the click, less what the border takes
    assert abs(float(columns.float().mean()) + 0.5 - np.clip((x + 0.5) / 16, p / 2, 32 - p / 2)) < 1
    assert abs(float(rows.float().mean()) + 0.5 - np.clip((y + 0.5) / 16, p / 2, 32 - p / 2)) < 1


def test_painting_by_brute_force_in_a_part_of_the_image():
    pixels = torch.randint(256, (3, 10, 14), dtype=torch.uint8)
    box, frame = (0.3, 0.2, 0.62, 0.9), (0.25, 0.1, 0.75, 1.0)
    colour = torch.tensor([1, 2, 3], dtype=torch.uint8)
    found = paint(pixels, box, frame, colour)
    for row in range(10):
        for column in range(14):
            x = 0.25 + (column + 0.5) / 14 * 0.5
            y = 0.1 + (row + 0.5) / 10 * 0.9
            inside = 0.3 <= x < 0.62 and 0.2 <= y < 0.9
            expected = colour if inside else pixels[:, row, column]
            assert torch.equal(found[:, row, column], expected)


def test_a_model_that_crops_sees_the_middle():
    assert frame_of(Preprocessing(resize="crop"), 60, 40) == pytest.approx((1 / 6, 0, 5 / 6, 1))
    assert frame_of(Preprocessing(resize="squash"), 60, 40) == (0, 0, 1, 1)


def test_blocks_lie_over_the_same_things_for_a_model_that_crops(tmp_path):
    """A red patch in the middle of a wide photograph is hidden from both models."""
    image = Image.new("RGB", (96, 64), "blue")
    image.paste("red", (40, 24, 56, 40))
    run, other = opened(tmp_path), opened(tmp_path, "tiny_aib")
    other.model.preprocessing = Preprocessing(image_size=64, resize="crop")
    look = Viewer([run, other], samples=(1, 1))
    scene = look.show(image, "photo")
    assert all((p[0] > 200).any() for p in look.pixels(scene))
    scene = look.cover(scene, Block(0.5, 0.5, 0.3))
    assert not any((p[0] > 200).any() for p in look.pixels(scene))
    assert look.shown(scene).shape == (64, 96, 3) and look.shown(scene, 1).shape == (64, 64, 3)


def test_covering_changes_the_block_alone_and_clearing_gives_all_back(tmp_path):
    look = viewer(tmp_path)
    scene = look.show(photo(32, 32), "photo")
    covered = look.cover(scene, Block(0.5, 0.5, 0.25))
    (before,), (now,) = look.pixels(scene), look.pixels(covered)
    changed = (before != now).any(0).nonzero()
    assert changed.min() >= 12 and changed.max() < 20
    assert not torch.equal(covered.now[0].probabilities, scene.now[0].probabilities)
    assert covered.before is scene.before
    assert look.uncover(covered).now is scene.before and look.uncover(covered).blocks == ()


def test_a_block_that_hides_nothing_changes_nothing(tmp_path):
    """The draws are the same, so all that is seen to change is the block's doing."""
    look = viewer(tmp_path)
    colour = tuple(mean_colour(look.runs[0].model.preprocessing).tolist())
    scene = look.show(Image.new("RGB", (32, 32), colour), "flat")
    covered = look.cover(scene, Block(0.4, 0.6, 0.5))
    assert torch.equal(covered.now[0].probabilities, scene.before[0].probabilities)
    assert torch.equal(covered.now[0].samples, scene.before[0].samples)


def send(folder, name: str, content: bytes):
    path = folder / "somewhere on the server" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("note.txt", b"hello", "note.txt is not an image of any known format"),
        ("empty.jpg", b"", "empty.jpg is not an image of any known format"),
        ("cut.png", png_header(20, 20), "cut.png cannot be read as an image"),
        ("large.png", png_header(8000, 7000), "large.png claims 8000 x 7000 pixels, above"),
        ("bomb.png", png_header(60000, 60000), "bomb.png claims more than 40,000,000 pixels"),
        ("dot.png", png_header(1, 1), "dot.png is 1 x 1 pixels, too small"),
    ],
)
def test_a_bad_file_is_answered_with_a_sentence(tmp_path, name, content, sentence):
    with pytest.raises(AibError) as caught:
        viewer(tmp_path).read(send(tmp_path, name, content))
    assert str(caught.value).startswith(sentence)
    assert "server" not in str(caught.value) and "\n" not in str(caught.value)


def test_the_limit_of_pixels_is_the_one_asked_for(tmp_path):
    buffer = io.BytesIO()
    photo(50, 40).save(buffer, format="PNG")
    path = send(tmp_path, "small.png", buffer.getvalue())
    assert viewer(tmp_path, max_pixels=2000).read(path).picture.name == "small.png"
    with pytest.raises(AibError, match="50 x 40 pixels, above the limit of 1,999"):
        viewer(tmp_path, max_pixels=1999).read(path)


def test_a_large_photograph_is_kept_small(tmp_path):
    scene = viewer(tmp_path).show(photo(1500, 900), "large")
    assert scene.picture.shown.shape == (307, 512, 3)
    assert (scene.picture.width, scene.picture.height) == (1500, 900)


def test_examples_are_the_runs_own_test_images_and_shapes(tmp_path):
    for number, name in enumerate(("ant", "bee")):
        folder = tmp_path / "photos" / "test" / name
        folder.mkdir(parents=True)
        for i in range(9):
            photo(60, 40, seed=10 * number + i).save(folder / f"{i}.png")
    settings = Settings(data=f"folder:{tmp_path / 'photos'}:image_size=80")
    found = find_examples([replace(opened(tmp_path), settings=settings)])
    own = [e for e in found if not e.name.startswith("shapes")]
    assert len(own) == 12 and len(found) == 18
    assert {e.image.size for e in own} == {(60, 40)}
    assert {e.name.split(", ")[1] for e in own} == {"test: ant", "test: bee"}


def test_examples_need_no_data(tmp_path):
    """A saved model knows of none, and a run's may be elsewhere."""
    saved = opened(tmp_path)
    gone = replace(saved, settings=Settings(data="cifar10", root=str(tmp_path)))
    assert strangers([saved], find_examples([saved])) == ""  # shapes are its classes
    for found in (find_examples([saved]), find_examples([gone])):
        assert len(found) == 12 and {e.image.size for e in found} == {(32, 32)}
        assert all(e.name.removeprefix("shapes, test: ") in shapes().class_names for e in found)


@pytest.mark.parametrize(
    ("trained", "data"),
    [
        ({"recipe": {"data": "cifar10", "epochs": 3}}, "cifar10"),
        ({"recipe": {}}, "shapes"),  # the default is left out
        ({"recipe": {"data": 5}}, None),
        ({"recipe": None}, None),
        ("long ago", None),
        (None, None),
    ],
)
def test_a_saved_models_recipe_says_what_it_was_trained_on(tmp_path, trained, data):
    config = {"schema": 1, "model": {}, "preprocessing": {}, "trained": trained}
    saved = opened(tmp_path)
    saved.folder.mkdir()
    (saved.folder / "config.json").write_text(json.dumps(config))
    assert data_of(saved) == data
