"""Decode image files to RGB: every mode, EXIF rotation, damaged and malicious files."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from aib.errors import AibError, first_line

# Above any photograph, and small enough for the memory of a worker process.
MAX_PIXELS = 100_000_000
MIN_SIDE = 2
# Pillow opens more formats, but not all are safe: for PostScript it starts another program.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")

T = TypeVar("T")
Resize = Literal["squash", "crop"]  # see Preprocessing.resize

# Pillow warns about images below our own limit.
warnings.simplefilter("ignore", Image.DecompressionBombWarning)


def open_rgb(path: Path, *, reduce: int = 0, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Decode an image file to an upright RGB image; an AibError names the file and the problem.

    reduce: decode a JPEG at a half, a quarter or an eighth of its size, which is fast, as long as
        both sides keep at least this many pixels; with 0 at its full size.
    """

    def decode(image: Image.Image) -> Image.Image:
        if reduce:
            image.draft("RGB", (reduce, reduce))
        image.load()
        return to_rgb(image)

    return _open(path, decode, max_pixels)


def open_mask(path: Path, values: Callable[[NDArray[np.uint8]], NDArray[np.uint8]]) -> Image.Image:
    """Decode a mask, mode L: `values` turns the grey levels [H,W] of its file into its pixels.

    The colours of a palette stand for its indices, as in PASCAL VOC.
    """

    def decode(image: Image.Image) -> Image.Image:
        image = ImageOps.exif_transpose(image)
        grey = image if image.mode == "P" else image.convert("L")
        return Image.fromarray(values(np.asarray(grey)))

    return _open(path, decode)


def upright_size(path: Path) -> tuple[int, int]:
    """Width and height of an image file, from its header unless it has to be turned."""

    def size(image: Image.Image) -> tuple[int, int]:
        ImageOps.exif_transpose(image, in_place=True)
        return image.size

    return _open(path, size)


def _open(path: Path, decode: Callable[[Image.Image], T], max_pixels: int = MAX_PIXELS) -> T:
    """What `decode` makes of the file; an AibError names the file and the problem."""
    try:
        if not path.is_file() and path.exists():
            raise AibError("is not a file")  # reading a pipe would block
        # Opened here: if Pillow opens a TIFF itself, it maps the file and loses the rotation.
        with path.open("rb") as file, _header(file, max_pixels) as image:
            return decode(image)
    except Image.DecompressionBombError as error:
        raise AibError(f"{path} claims more than {max_pixels:,} pixels") from error
    except AibError as error:
        raise AibError(f"{path} {error}") from error
    except FileNotFoundError as error:
        raise AibError(f"{path} does not exist") from error
    except UnidentifiedImageError as error:
        formats = ", ".join(FORMATS)
        raise AibError(f"{path} is not an image of any known format ({formats})") from error
    except Exception as error:  # damaged bytes can raise any exception in a decoder
        raise AibError(f"{path} cannot be read as an image ({first_line(error)})") from error


def _header(file: IO[bytes], max_pixels: int) -> Image.Image:
    """The image before it is decoded; an error for one that is too large or too small."""
    image = Image.open(file, formats=FORMATS)
    width, height = image.size
    if width * height > max_pixels:
        raise Image.DecompressionBombError
    if min(width, height) < MIN_SIDE:
        raise AibError(f"has {width} x {height} pixels, and needs {MIN_SIDE} x {MIN_SIDE}")
    return image


def to_image(source: Any) -> Image.Image:
    """A path, a PIL image, a uint8 array [H,W,3] or [H,W], or a uint8 tensor [3,H,W], in RGB."""
    if isinstance(source, str | Path):
        return open_rgb(Path(source))
    if isinstance(source, Image.Image):
        return to_rgb(source)
    if isinstance(source, Tensor):
        source = (source.movedim(0, -1) if source.ndim == 3 else source).cpu().numpy()
    if not isinstance(source, np.ndarray) or source.dtype != np.uint8:
        source = np.empty(0)
    array = source[..., 0] if source.shape[2:] == (1,) else source
    if array.ndim not in (2, 3) or array.shape[2:] not in ((), (3,)):
        raise AibError(
            "an image must be a path, a PIL image, a uint8 array [H,W,3] or a uint8 tensor [3,H,W]"
        )
    return to_rgb(Image.fromarray(array))


def to_rgb(image: Image.Image) -> Image.Image:
    """The image upright, in RGB."""
    if image.getexif().get(ExifTags.Base.Orientation, 1) != 1:
        image = ImageOps.exif_transpose(image)  # otherwise it would be a copy
    if image.mode.startswith("I") or image.mode == "F":
        # Pillow clips 16 bits, and floats from 0 to 1, to 8 bits instead of scaling them.
        values = np.nan_to_num(np.asarray(image).astype(np.float64))
        white = 2**16 - 1 if values.max() > 255 else 255 if values.max() > 1 else 1
        return Image.fromarray((values * 255 / white).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        # Transparent pixels hold arbitrary colours; white is what viewers show.
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def resized(image: Image.Image, size: int, policy: Resize) -> Image.Image:
    """Resize to size x size; for `policy` see Preprocessing.resize. A mask keeps its values."""
    box = None if policy == "squash" else centre_square(image.width, image.height)
    how = Image.Resampling.NEAREST if image.mode == "L" else Image.Resampling.BILINEAR
    return image.resize((size, size), how, box=box)


def centre_square(width: int, height: int) -> tuple[float, float, float, float]:
    """(left, top, right, bottom) of the largest centred square."""
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return (left, top, left + side, top + side)


def to_tensor(image: Image.Image) -> Tensor:
    """An RGB image as uint8 [3,H,W]."""
    # NumPy copies: torch would start threads of its own in each of those that decode.
    return torch.from_numpy(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1).copy())
