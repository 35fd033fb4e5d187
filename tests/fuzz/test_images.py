"""Image files of every kind, whole and damaged: pixels or an AibError."""

import io
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from aib.data import load
from aib.data.decode import MAX_PIXELS, open_rgb
from aib.errors import AibError
from tests.data.official import bomb
from tests.fuzz.damage import damaged
from tests.fuzz.harness import WATCH, World, fuzz, limited

MODES = {
    "PNG": "1 L LA P I;16 RGB RGBA",
    "JPEG": "L RGB CMYK",
    "WEBP": "RGB RGBA",
    "BMP": "1 L P RGB RGBA",
    "GIF": "1 L P RGB RGBA",
    "TIFF": "1 L LA P I;16 I F RGB RGBA CMYK LAB",
    "PPM": "1 L I;16 RGB",
}
KINDS = [(kind, mode) for kind, modes in MODES.items() for mode in modes.split()]


@cache
def picture(kind: str, mode: str, width: int, height: int, turned: int) -> bytes:
    """A small file of this format; `turned` is its EXIF orientation, 1 for upright."""
    values = np.arange(width * height * 3).reshape(height, width, 3) * 7 % 256
    image = Image.fromarray(values.astype(np.uint8))
    if mode == "I;16":
        image = Image.fromarray((values[:, :, 0] * 257).astype(np.uint16))
    else:
        image = image.convert("L").convert(mode) if mode in ("I", "F") else image.convert(mode)
    content, options = io.BytesIO(), {}
    if turned > 1 and kind in ("PNG", "JPEG", "WEBP", "TIFF"):
        exif = Image.Exif()
        exif[0x0112] = turned
        options["exif"] = exif
    if mode == "P" and kind in ("PNG", "GIF"):
        options["transparency"] = 0
    image.save(content, kind, **options)
    return content.getvalue()


sides = st.integers(2, 24)
pictures = st.tuples(st.sampled_from(KINDS), sides, sides, st.integers(1, 8)).map(
    lambda t: (*t[0], *t[1:])
)


@given(pictures)
@example(("JPEG", "RGB", 7, 7, 1))  # an eighth of it is less than a pixel
@example(("TIFF", "RGBA", 18, 17, 7))  # its rotation was once ignored
@fuzz
def test_whole_images_of_every_kind_are_read(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[str, str, int, int, int]
) -> None:
    kind, _, width, height, turned = case
    path = tmp_path_factory.getbasetemp() / f"whole.{kind.lower()}"
    path.write_bytes(picture(*case))
    sideways = turned >= 5 and kind in ("PNG", "JPEG", "WEBP", "TIFF")
    for reduce in (False, True):
        with limited():
            image = open_rgb(path, reduce=reduce)
        assert image.mode == "RGB"
        if not reduce:
            assert image.size == ((height, width) if sideways else (width, height))


# Files that mutation would not find.
STRANGE = {
    "empty": b"",
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\n(x) =\n",
    "a bomb": bomb(11_000),
    "a larger bomb": bomb(60_000),
    "a thin bomb": picture("BMP", "RGB", 8, 8, 1)[:18] + b"\0\0\0\x40" + b"\1\0\0\0" + bytes(30),
    "a page": b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
}
broken = st.one_of(
    pictures.flatmap(lambda case: damaged(picture(*case))), st.sampled_from(list(STRANGE.values()))
)


@given(broken)
@example(STRANGE["PostScript"])  # Pillow would start another program
@fuzz
def test_damaged_images(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.png"
    path.write_bytes(content)
    for reduce in (False, True):
        try:
            with limited(), WATCH.on() as written:
                image = open_rgb(path, reduce=reduce)
        except AibError as error:
            assert "damaged.png" in str(error)
        else:
            assert image.mode == "RGB" and (reduce or min(image.size) >= 2)
            assert image.width * image.height <= MAX_PIXELS
        assert not written


def create(path: Path, what: str, content: bytes) -> None:
    """Something that a folder of images may contain."""
    if what == "file":
        path.write_bytes(content)
    elif what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"loop": path, "dangling": "nowhere", "device": "/dev/zero"}[what])


THINGS = ("file", "file", "file", "folder", "pipe", "loop", "dangling", "device")
things = st.lists(st.tuples(st.sampled_from(THINGS), broken), min_size=1, max_size=3)
OPTIONS = ("", ":image_size=8", ":image_size=80,resize=crop")


@given(things, st.sampled_from(OPTIONS), st.booleans())
@fuzz
def test_a_folder_with_anything_in_it(
    world: World, found: list[tuple[str, bytes]], options: str, strict: bool
) -> None:
    world.clear()
    for i in range(4):
        path = world.work / "photos" / ("cat", "dog")[i % 2] / f"good{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture("PNG", "RGB", 9, 12, 1))
    for number, (what, content) in enumerate(found):
        create(world.work / "photos" / "cat" / f"odd{number}.png", what, content)
    try:
        with limited(), WATCH.on() as written:
            data = load(f"folder:{world.work / 'photos'}{options}", "train", strict=strict)
            pixels = [data.pixels(i) for i in range(len(data))]
    except AibError as error:
        assert strict, error
        assert "odd" in str(error)
    else:
        assert len(data) >= 2
        assert all(image.shape == (3, *[data.preprocessing.image_size] * 2) for image in pixels)
    assert not written


@given(st.sampled_from(THINGS), broken, st.sampled_from(["photos", "photos/odd.png"]))
@example("pipe", b"", "photos")  # reading it would block
@example("pipe", b"", "photos/odd.png")
@fuzz
def test_explain_with_anything(world: World, what: str, content: bytes, named: str) -> None:
    world.clear()
    (world.work / "photos").mkdir()
    create(world.work / "photos" / "odd.png", what, content)
    world.aib("explain", named, "--run", "run", "--deterministic")
