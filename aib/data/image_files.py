"""Find the image files below a folder, and decode them once to learn which are damaged."""

import os
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np

from aib.data.decode import open_rgb
from aib.errors import AibError

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
SUFFIXES |= {".jfif", ".jpe"}  # other names of JPEG
UNREAD = {".heic", ".heif", ".avif", ".jxl"}  # listed, so that they are reported as skipped
DEEP = {".png", ".tif", ".tiff", ".pgm", ".ppm"}  # may have 16 bits
NEARLY_BLACK = 15  # of 255: the largest value of 12 bits, taken for one of 16


def photographs(folder: Path) -> list[Path]:
    """The image files of a class."""
    return image_files(folder)


def image_files(folder: Path, skipped: dict[str, str] | None = None) -> list[Path]:
    """All image files below the folder, sorted, without hidden ones; none if it is not there.

    Links to folders are followed, after all folders that are really there. None is read twice, and
    none above this one, which would hold other classes. A folder that cannot be read is an error;
    with `skipped` it is left out, and the message is in there.
    """

    def report(error: OSError) -> None:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return
        message = f"{error.filename} cannot be read: {error.strerror}"
        if skipped is None:
            raise AibError(message) from error
        skipped[str(error.filename)] = message

    found, waiting = [], [folder]
    seen = {str(above) for above in Path(os.path.realpath(folder)).parents}
    while waiting:
        for top, folders, names in os.walk(waiting.pop(0), onerror=report):
            real = os.path.realpath(top)
            if real in seen:
                folders.clear()
                continue
            seen.add(real)
            folders[:] = [name for name in folders if not name.startswith(".")]
            inside = [Path(top, name) for name in sorted(folders)]
            waiting += [path for path in inside if path.is_symlink()]
            found += [Path(top, name) for name in names]
    return sorted(
        p
        for p in found
        if p.suffix.lower() in SUFFIXES | UNREAD
        and not p.name.startswith(".")
        and _is_file_or_missing(p)
    )


def _is_file_or_missing(path: Path) -> bool:
    """True for a link without its target, which is reported as unreadable."""
    try:
        return path.is_file() or not path.exists()
    except PermissionError:  # its folder may be listed only; reported as well
        return True


@lru_cache(maxsize=2**18)  # the same folder is often read again, for its held-out images
def _largest_value(path: Path, modified: int, size: int) -> int:
    """Decode the file, again only after a change. An error says why it cannot be decoded."""
    return int(np.asarray(open_rgb(path, reduce=1)).max())


def decode_all(files: Collection[Path]) -> tuple[dict[Path, str], list[Path]]:
    """An error message for each file that cannot be decoded, and the files that may have 16 bits
    and are nearly black."""

    def decode(path: Path) -> str | int:
        try:
            facts = path.stat()
            return _largest_value(path, facts.st_mtime_ns, facts.st_size)
        except OSError as error:
            return f"{path} cannot be opened: {error.strerror}"
        except AibError as error:
            return str(error)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow releases the GIL
        found = dict(zip(files, pool.map(decode, files), strict=True))
    errors = {path: value for path, value in found.items() if isinstance(value, str)}
    values = {path: value for path, value in found.items() if isinstance(value, int)}
    dark = [path for path, largest in values.items() if 0 < largest <= NEARLY_BLACK]
    return errors, [path for path in dark if path.suffix.lower() in DEEP]
