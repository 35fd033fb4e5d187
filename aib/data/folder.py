"""A user's own images in folders.

The contract: one sub-folder per class, optionally below train/, val/ and test/. Masks are optional
PNG files below masks/, at the path of their image: masks/CLASS/NAME.png, or
masks/SPLIT/CLASS/NAME.png. With `labels=no` the images may lie anywhere, and have no labels.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import torch

from aib.data.decode import Resize, open_rgb
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.objects import from_user
from aib.data.preprocessing import Preprocessing
from aib.data.specs import IMAGENET_MEAN, IMAGENET_STD
from aib.errors import AibError

SPLITS = ("train", "val", "test")
MASKS = "masks"
UNLABELLED = "(without labels: --teacher, --distill 1)"  # a hint for errors
IMAGE_SIZE = 224  # default; set by folder:photos:image_size=32
SUFFIXES = {".png", ".jpg", ".jpeg", ".jfif", ".jpe", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
SUFFIXES |= {".ppm", ".pgm"}
SUFFIXES |= {".heic", ".heif", ".avif", ".jxl"}  # not readable: reported as skipped


def has_split(path: Path, split: str) -> bool:
    """Whether the folder has this split. One of classes, without train/, has only `train`."""
    if not (path / "train").is_dir():
        return split == "train" and path.is_dir()
    return split in SPLITS and (path / split).is_dir()


def has_classes(path: Path) -> bool:
    """Whether all training images lie in sub-folders, one per class."""
    top = _training_folder(path)
    files = _files_without_masks(top)
    return bool(files) and all(file.parent.parent == top for file in files)


def count_images(path: Path) -> int:
    """How many training images the folder has, with unreadable ones."""
    return len(_files_without_masks(_training_folder(path)))


def _training_folder(path: Path) -> Path:
    return path / "train" if (path / "train").is_dir() else path


def read(split: str, *, path: Path, resize: Resize = "squash", labels: bool = True) -> ImageSet:
    """Read one split of the folder; damaged images are left out and listed in `.skipped`.

    Without `labels` all images below the folder are taken, and belong to one class.
    """
    if not has_split(path, split):
        raise _wrong(path, f"it has no images in '{split}'")
    top = path / split if (path / "train").is_dir() else path
    if labels:
        classes, label_of = _labelled_files(path, top)
    else:
        classes, label_of = ("unlabelled",), dict.fromkeys(_files_without_masks(top), 0)
    errors = decode_all(list(label_of))
    paths = tuple(file for file in label_of if file not in errors)
    present = {label_of[file] for file in paths}
    if not present:
        raise AibError(f"{top} has no readable image")
    if len(present) < (len(classes) if split == "train" else 1):  # test images may lack a class
        empty = next(name for i, name in enumerate(classes) if i not in present)
        raise _wrong(top, f"'{empty}' has no readable image")
    keys = tuple(file.relative_to(path).as_posix() for file in paths)
    objects = _masks(path, keys)
    targets = torch.tensor([label_of[file] for file in paths])
    policy = Preprocessing(IMAGE_SIZE, resize, IMAGENET_MEAN, IMAGENET_STD, classes)
    return ImageSet(
        f"folder:{path}",
        split,
        targets,
        policy,
        files=ImageFiles(paths, objects=objects, object_values=from_user),
        skipped=tuple(errors.values()),
        keys=keys,
        labelled=labels,
    )


def _labelled_files(path: Path, top: Path) -> tuple[tuple[str, ...], dict[Path, int]]:
    """The classes, and the label of each image of the split in `top`."""
    classes = _classes(path / "train" if top != path else path)
    if other := set(_classes(top)) - set(classes):
        raise _wrong(top, f"train/ lacks its class '{min(other)}' {UNLABELLED}")
    labels = {file: i for i, name in enumerate(classes) for file in image_files(top / name)}
    if deep := [file for file in labels if file.parent.parent != top]:
        raise _wrong(top, f"{deep[0]} lies in a sub-folder of a class {UNLABELLED}")
    return classes, labels


def _files_without_masks(top: Path) -> list[Path]:
    """All images below the folder."""
    return [file for file in image_files(top) if not file.is_relative_to(top / MASKS)]


def _masks(path: Path, keys: tuple[str, ...]) -> tuple[Path | None, ...]:
    """The mask of each image, None where there is none; empty without any."""
    expected = [(path / MASKS / key).with_suffix(".png") for key in keys]
    objects = tuple(mask if mask.is_file() else None for mask in expected)
    if any(objects):
        return objects
    others = {path / MASKS / split for split in SPLITS} - set(expected[0].parents)
    if any(others.isdisjoint(mask.parents) for mask in image_files(path / MASKS)):
        raise AibError(f"no mask in {path / MASKS} has the path of an image, such as {expected[0]}")
    return ()


def image_files(folder: Path) -> list[Path]:
    """All image files below the folder, sorted, without hidden ones; none if it is not there."""

    def report(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    found = []
    for top, folders, names in os.walk(folder, onerror=report):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(top, name) for name in names if not name.startswith(".")]
    return sorted(file for file in found if file.suffix.lower() in SUFFIXES)


def decode_all(files: list[Path]) -> dict[Path, str]:
    """Decode all files; return an error message for each that is damaged."""

    def error_of(path: Path) -> str:
        return _decode_error(path, path.stat().st_mtime_ns if path.exists() else 0)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow releases the GIL
        errors = dict(zip(files, pool.map(error_of, files), strict=True))
    return {path: why for path, why in errors.items() if why}


@lru_cache(maxsize=2**18)  # the same folder is read again for its held-out images
def _decode_error(path: Path, modified: int) -> str:
    try:
        open_rgb(path, reduce=1)
    except AibError as error:
        return str(error)
    return ""


def _classes(top: Path) -> tuple[str, ...]:
    names = sorted(entry.name for entry in top.iterdir() if entry.is_dir())
    classes = tuple(name for name in names if not name.startswith(".") and name != MASKS)
    if not classes:
        raise _wrong(top, f"it has no sub-folders {UNLABELLED}")
    return classes


def _wrong(path: Path, why: str) -> AibError:
    """The error of a folder that breaks the contract."""
    return AibError(
        f"{path} needs one sub-folder of images per class, optionally below train/, val/ and "
        f"test/ (masks in {MASKS}/): {why}"
    )
