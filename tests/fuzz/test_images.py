"""Image files of every kind, whole and damaged: pixels or an AibError."""

import io
import os
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import example, given, strategies as st
from PIL import Image

from aib.data import load
from aib.data.decode import MAX_PIXELS, open_rgb
from tests.data.official import bomb, write_folder
from tests.fuzz.damage import damaged
from tests.fuzz.harness import WATCH, fuzz, limited, reading

MODES = {
    "PNG": "1 L LA P I;16 RGB RGBA",
    "JPEG": "L RGB CMYK",
    "WEBP": "RGB RGBA",
    "BMP": "1 L P RGB RGBA",
    "GIF": "1 L P RGB RGBA",
    "TIFF": "1 L LA P I;16 I F RGB RGBA CMYK LAB",
    "PPM": "1 L I;16 RGB",
}
TURNED = ("PNG", "JPEG", "WEBP", "TIFF")  # they hold an EXIF orientation


@cache
def picture(kind: str, mode: str, width: int, height: int, turned: int = 1) -> bytes:
    """A small file of this format; `turned` is its EXIF orientation, 1 for upright."""
    values = np.arange(width * height * 3).reshape(height, width, 3) * 7 % 256
    image = Image.fromarray(values.astype(np.uint8))
    if mode == "I;16":
        image = Image.fromarray((values[:, :, 0] * 257).astype(np.uint16))
    else:
        image = image.convert("L").convert(mode) if mode in ("I", "F") else image.convert(mode)
    content, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = turned
    image.save(content, kind, **({"exif": exif} if kind in TURNED else {}))
    return content.getvalue()


sides = st.integers(2, 24)
kinds = st.sampled_from([(kind, mode) for kind in MODES for mode in MODES[kind].split()])
pictures = st.tuples(kinds, sides, sides, st.integers(1, 8)).map(lambda t: (*t[0], *t[1:]))


@given(pictures)
@example(("JPEG", "RGB", 7, 7, 1))  # an eighth of it is less than a pixel
@example(("TIFF", "RGBA", 18, 17, 7))  # its rotation was once ignored
@fuzz
def test_whole_images_of_every_kind_are_read(tmp_path_factory, case):
    kind, _, width, height, turned = case
    path = tmp_path_factory.getbasetemp() / f"whole.{kind.lower()}"
    path.write_bytes(picture(*case))
    sideways = turned >= 5 and kind in TURNED
    for reduce in (False, True):
        image = open_rgb(path, reduce=reduce)
        assert image.mode == "RGB"
        assert reduce or image.size == ((height, width) if sideways else (width, height))


STRANGE = [  # that mutation would not find
    b"",
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\n(x) =\n",
    bomb(11_000),
    bomb(60_000),
    picture("BMP", "RGB", 8, 8)[:18] + b"\0\0\0\x40" + b"\1\0\0\0" + bytes(30),
    b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
]
broken = pictures.flatmap(lambda case: damaged(picture(*case))) | st.sampled_from(STRANGE)


@given(broken, st.booleans())
@example(STRANGE[1], False)  # Pillow would start another program
@fuzz
def test_damaged_images(tmp_path_factory, content, reduce):
    path = tmp_path_factory.getbasetemp() / "damaged.png"
    path.write_bytes(content)
    with reading():
        image = open_rgb(path, reduce=reduce)
        assert image.mode == "RGB" and image.width * image.height <= MAX_PIXELS


def create(path: Path, what: str, content: bytes) -> None:
    """Something that a folder of images may contain."""
    links = {"loop": path, "dangling": "nowhere", "device": "/dev/zero"}
    if what == "file":
        path.write_bytes(content)
    elif what in links:
        path.symlink_to(links[what])
    else:
        {"folder": os.mkdir, "pipe": os.mkfifo}[what](path)


kinds_of_things = st.sampled_from("file file file folder pipe loop dangling device".split())
things = st.lists(st.tuples(kinds_of_things, broken), min_size=1, max_size=3)


@given(things, st.sampled_from([":image_size=8", ":image_size=80,resize=crop"]))
@fuzz
def test_a_folder_with_anything_in_it(world, found, options):
    world.clear()
    photos = world.work / "photos"
    write_folder(photos, classes=2, per_class=2, side=9)
    for number, (what, content) in enumerate(found):
        create(photos / "class_0" / f"odd{number}.png", what, content)
    with limited(), WATCH.allow(None):
        data = load(f"folder:{photos}{options}", "train")
        pixels = [data.pixels(i) for i in range(len(data))]
    assert len(data) >= 2  # others are held out
    assert all(image.shape == (3, *[data.preprocessing.image_size] * 2) for image in pixels)
