"""A user's own images: one sub-folder a class, optionally under train/, val/ and test/."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from aib.data.decode import open_rgb
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.specs import IMAGENET_MEAN, IMAGENET_STD
from aib.errors import AibError
from aib.preprocessing import Preprocessing, Resize

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
SPLITS = ("train", "val", "test")
IMAGE_SIZE = 224  # unless the name says otherwise, as in folder:photos:image_size=32


def has_split(path: Path, split: str) -> bool:
    return (path / split).is_dir()


def read(
    split: str,
    *,
    path: Path,
    strict: bool = False,
    check: bool = True,
    resize: Resize = "squash",
) -> ImageSet:
    """One split of the folder; a flat folder has only `train`.

    `check` decodes every file once to find damaged ones before any work is done. They are left
    out and listed in `.skipped`; with `strict` the first one stops everything.
    """
    if split not in SPLITS:
        raise AibError(f"a folder has no split '{split}'; it may have {', '.join(SPLITS)}")
    if not path.is_dir():
        raise AibError(f"{path} is not a folder")
    top = _top(path, split)
    classes = _classes(path / "train" if has_split(path, "train") else top)
    unknown = [name for name in _classes(top) if name not in classes]
    if unknown:
        raise AibError(f"{top / unknown[0]} is a class that the training images do not have")
    found = [(file, label) for label, name in enumerate(classes) for file in _files(top / name)]
    skipped: list[str] = []
    if check:
        found, skipped = _readable(found, strict)
    if not found:
        reason = f"; {skipped[0]}" if skipped else ""
        raise AibError(f"{top} has no readable image in its class folders{reason}")
    if split == "train":
        _refuse_empty(top, classes, {label for _, label in found}, skipped)
    return ImageSet(
        name=f"folder:{path}",
        split=split,
        labels=torch.tensor([label for _, label in found]),
        preprocessing=Preprocessing(IMAGE_SIZE, resize, IMAGENET_MEAN, IMAGENET_STD, classes),
        files=ImageFiles(tuple(file for file, _ in found)),
        skipped=tuple(skipped),
    )


def require_two_classes(path: Path, classes: tuple[str, ...]) -> None:
    """Refuse to train on one class. To evaluate a model on one is fine, so `read` allows it."""
    if len(classes) > 1:
        return
    top = _top(path, "train")
    nested = _sub_folders(top / classes[0])
    hint = (
        f"if its sub-folders ({', '.join(nested[:3])}{', ...' * (len(nested) > 3)}) are the "
        f"classes, move them up into {top}"
        if nested
        else "add a folder for each other class"
    )
    raise AibError(
        f"{top} has one class folder, '{classes[0]}', and training needs two or more: {hint}"
    )


def _refuse_empty(
    top: Path, classes: tuple[str, ...], present: set[int], skipped: list[str]
) -> None:
    """A class that cannot be learnt is a mistake; in test images a class may be absent."""
    empty = [name for label, name in enumerate(classes) if label not in present]
    if empty:
        folder = top / empty[0]
        reason = next((f" ({why})" for why in skipped if str(folder) + os.sep in why), "")
        raise AibError(
            f"{folder} has no readable image{reason}: each sub-folder of {top} is a class, so add "
            "images to it or remove it"
        )


def _top(path: Path, split: str) -> Path:
    if not any(has_split(path, name) for name in SPLITS):
        if split != "train":
            raise AibError(
                f"{path} has no {split}/ folder: put its classes under train/ and {split}/"
            )
        return path
    if not has_split(path, split):
        raise AibError(f"{path} has no {split}/ folder")
    return path / split


def _classes(top: Path) -> tuple[str, ...]:
    names = _sub_folders(top)
    if not names:
        raise AibError(f"{top} has no sub-folders: images belong in one sub-folder a class")
    return tuple(names)


def _sub_folders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():  # a class without images in this split
        return []
    return sorted(
        p
        for p in folder.rglob("*")
        if p.suffix.lower() in SUFFIXES and p.is_file() and not p.name.startswith(".")
    )


def _readable(
    found: list[tuple[Path, int]], strict: bool
) -> tuple[list[tuple[Path, int]], list[str]]:
    """The files that decode, and a sentence for each that does not."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow lets go of the GIL
        troubles = list(pool.map(_trouble, [file for file, _ in found]))
    skipped = [trouble for trouble in troubles if trouble]
    if skipped and strict:
        raise AibError(f"{skipped[0]} ({len(skipped)} such file(s) in all)")
    kept = [pair for pair, trouble in zip(found, troubles, strict=True) if not trouble]
    return kept, skipped


def _trouble(path: Path) -> str:
    try:
        open_rgb(path, reduce=True)
    except AibError as error:
        return str(error)
    return ""
