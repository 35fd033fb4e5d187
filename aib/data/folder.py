"""A user's own images: one sub-folder per class, optionally under train/, val/ and test/.

val/ may also be called valid/, validation/ or dev/.

Masks are optional: that of CLASS/NAME.jpg is masks/CLASS/NAME.png, beside the classes, or under
masks/train/ and so on.
"""

import hashlib
import os
import re
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aib.data.decode import open_mask
from aib.data.image_files import SUFFIXES, UNREAD, decode_all, image_files, photographs
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.objects import from_user, is_ours
from aib.data.preprocessing import Preprocessing, Resize
from aib.data.specs import IMAGENET_MEAN, IMAGENET_STD
from aib.errors import AibError, AibWarning

SPLITS = ("train", "val", "test")
OTHER_NAMES = {
    "train": ("training",),
    "val": ("valid", "validation", "dev"),
    "test": ("testing",),
}
MASKS = "masks"
SAMPLED_MASKS = 100  # that are decoded to find the values that masks have
IMAGE_SIZE = 224  # default; set by folder:photos:image_size=32


def has_split(path: Path, split: str) -> bool:
    return _split_folder(path, split) is not None


def read(
    split: str, *, path: Path, strict: bool = False, check: bool = True, resize: Resize = "squash"
) -> ImageSet:
    """Read one split of the folder; a flat folder has only `train`.

    check: decode every image once to find damaged ones. They are left out and listed in `.skipped`;
        with `strict` they are an error. Compare the sizes of masks and images.
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
    labels = {f: i for i, name in enumerate(classes) for f in photographs(top / name)}
    errors, dark = decode_all([f for f in labels if check or f.suffix.lower() in UNREAD])
    if errors and strict:
        raise AibError(f"{next(iter(errors.values()))} ({len(errors)} such file(s) in total)")
    paths = tuple(file for file in labels if file not in errors)
    if not paths:
        reason = f"; {next(iter(errors.values()))}" if errors else ""
        raise AibError(f"{top} has no readable image in its class folders{reason}")
    present = {labels[file] for file in paths}
    empty = [top / name for label, name in enumerate(classes) if label not in present]
    if empty and split == "train":  # test images may lack a class
        reason = next((f" ({why})" for file, why in errors.items() if empty[0] in file.parents), "")
        raise AibError(
            f"{empty[0]} has no readable image{reason}: each sub-folder of {top} is a class, so "
            "add images to it or remove it"
        )
    folders = (top / MASKS, path / MASKS / (split if top == path else top.name))
    folder = next((f for f in folders if _holds_objects(f, classes)), None)
    objects = _masks(folder, top, labels, paths) if folder else ()
    if not objects and top != path and _holds_objects(path / MASKS, classes):
        _warn(f"the masks in {path / MASKS} are not used: those of {split} belong in {folders[1]}")
    _warn_of_masks(labels, top)
    if dark:
        _warn(
            f"{len(dark):,} of the images are nearly black, such as {dark[0]}: if they hold 12 "
            "bits in 16, or fewer, scale them to the full range"
        )
    values = partial(from_user, ours=_have_our_values(objects))
    files = ImageFiles(paths, objects=objects, object_values=values)
    if check and objects:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(files.check_mask, range(len(paths))))
    targets = torch.tensor([labels[file] for file in paths])
    policy = Preprocessing(IMAGE_SIZE, resize, IMAGENET_MEAN, IMAGENET_STD, classes)
    skipped = tuple(errors.values())
    return ImageSet(f"folder:{path}", split, targets, policy, files=files, skipped=skipped)


def describe_files(data: ImageSet, path: Path) -> dict[str, Any]:
    """The number of files, and a SHA-256 of their names and labels: a seeded split depends on both.

    A damaged file counts as missing.
    """
    assert isinstance(data.files, ImageFiles)
    names = (file.relative_to(path).as_posix() for file in data.files.paths)
    lines = "".join(f"{i} {name}\n" for i, name in zip(data.labels.tolist(), names, strict=True))
    return {"files": len(data), "sha256": hashlib.sha256(os.fsencode(lines)).hexdigest()}


def require_two_classes(path: Path, classes: tuple[str, ...]) -> None:
    """Raise an error for training on one class. (`read` allows it: evaluation on one is fine.)"""
    if len(classes) > 1:
        return
    top = _top(path, "train")
    nested = _sub_folders(top / classes[0])
    hint = "add a folder for each other class"
    if nested:
        names = ", ".join(nested[:3]) + ", ..." * (len(nested) > 3)
        hint = f"if its sub-folders ({names}) are the classes, move them up into {top}"
    raise AibError(
        f"{top} has one class folder, '{classes[0]}', and training needs two or more: {hint}"
    )


def _top(path: Path, split: str) -> Path:
    """The folder of the split's classes; a flat folder is its own training split."""
    if found := _split_folder(path, split):
        if split == "train":
            _check_split(path)
        return found
    if split == "train" and not any(has_split(path, name) for name in SPLITS):
        _check_flat(path)
        return path
    other = "test" if split == "train" else split
    raise AibError(f"{path} has no {split}/ folder: put its classes under train/ and {other}/")


def _split_folder(path: Path, split: str) -> Path | None:
    """The folder of a split, if there is one: beside train/ other names and cases are known too."""
    if _is_folder(path / split):
        return path / split
    if split == "train" or not _is_folder(path / "train"):
        return None  # the folder may be a class
    known = (split, *OTHER_NAMES.get(split, ()))
    return next((path / name for name in _sub_folders(path) if name.lower() in known), None)


def _check_split(path: Path) -> None:
    """Raise an error for a folder train/ that may be one class among others, with sub-folders."""
    inside = _sub_folders(path / "train")
    if not inside or has_split(path, "val") or has_split(path, "test"):
        return
    for name in _sub_folders(path):
        with suppress(OSError):  # a folder that may not be read, such as lost+found, is no class
            files = [] if name in ("train", MASKS, *inside) else (path / name).iterdir()
            if any(file.suffix.lower() in SUFFIXES for file in files):
                raise AibError(
                    f"{path / 'train'} has sub-folders and lies beside {name}/, which holds "
                    "images: if the sub-folders are the classes, move the other folder elsewhere; "
                    "if 'train' is a class, move all classes into a folder train/"
                )


def _check_flat(path: Path) -> None:
    """Raise an error for a folder of classes that looks like a folder of splits."""
    splits = {name for split in SPLITS for name in (split, *OTHER_NAMES[split])}
    names = [name for name in _sub_folders(path) if name != MASKS]
    if names and all(name.lower() in splits and _sub_folders(path / name) for name in names):
        raise AibError(
            f"{path} has the folders {', '.join(names)}, which look like splits and not like "
            "classes: rename them to train, val and test"
        )


def _masks(
    folder: Path, top: Path, every: Iterable[Path], readable: tuple[Path, ...]
) -> tuple[Path | None, ...]:
    """The mask of each readable image, None where there is none; warn of other mask files."""
    found = image_files(folder)  # first: a folder that may not be read is an error that names it
    expected = {file: (folder / file.relative_to(top)).with_suffix(".png") for file in every}
    objects = tuple(expected[file] if expected[file].is_file() else None for file in readable)
    if not any(objects):
        example = f"that of {readable[0]} would be {expected[readable[0]]}"
        raise AibError(f"{folder} has a mask for none of the images: {example}")
    used = set(expected.values())
    if unused := [mask for mask in found if mask not in used]:
        _warn(
            f"{len(unused):,} of the masks in {folder} are not used, such as {unused[0]}: a mask "
            "has the name of its image and the suffix .png"
        )
    return objects


def _warn_of_masks(files: Iterable[Path], top: Path) -> None:
    """Warn of NAME_mask.png beside NAME.png, which counts as an image."""
    names = {file.with_suffix("") for file in files}
    base = {file: re.sub(r"_mask(_\d+)?$", "", file.stem) for file in files}
    found = [
        f for f, stem in base.items() if stem not in ("", f.stem) and f.with_name(stem) in names
    ]
    if found:
        _warn(
            f"{len(found):,} of the images look like masks, such as {found[0]}: if they are, move "
            f"them to {top / MASKS}/CLASS/, each under the name of its image"
        )


def _warn(message: str) -> None:
    warnings.warn(message, AibWarning, stacklevel=3)


def _have_our_values(objects: tuple[Path | None, ...]) -> bool:
    """Whether the masks have the values 0, 1 and 255; else the object is white on black.

    A mask of 0 and 255 alone does not tell. A sample is decoded: all of them would take long.
    """
    found = [mask for mask in objects if mask is not None]
    for mask in found[:: max(1, len(found) // SAMPLED_MASKS)]:
        with suppress(AibError):  # a damaged mask is an error when it is used
            if is_ours(np.asarray(open_mask(mask, lambda values: values))):
                return True
    return False


def _holds_objects(folder: Path, classes: Iterable[str]) -> bool:
    """Whether the folder `masks` has sub-folders of classes; else it may be a class itself."""
    return any(_is_folder(folder / name) for name in classes if name != MASKS)


def _classes(top: Path) -> tuple[str, ...]:
    names = _sub_folders(top)
    if _holds_objects(top / MASKS, names):
        names.remove(MASKS)
    if len(names) == 2 and MASKS in names:
        images = top / next(name for name in names if name != MASKS)
        if _holds_objects(top / MASKS, _sub_folders(images)):
            raise AibError(
                f"{top / MASKS} has masks of the folders in {images}: if those are the classes, "
                f"move them up into {top}"
            )
    if {name.lower().rstrip("s") for name in names} in ({"image", "mask"}, {"img", "mask"}):
        raise AibError(
            f"{' and '.join(names)} in {top} are no classes: put the images in one sub-folder per "
            f"class, beside {MASKS}/, and the masks in folders of the same names in {MASKS}/"
        )
    for name in names if len(names) > 2 else ():
        if all(_is_folder(top / name / other) for other in names if other != name):
            raise AibError(
                f"{top / name} has a sub-folder for each of the classes beside it, so it is no "
                f"class: masks belong in {top / MASKS}, other images in another folder"
            )
    if not names:
        if top.name in SPLITS:
            raise AibError(
                f"{top} has no sub-folders for the classes; if '{top.name}' is a class, move all "
                "classes into a folder train/"
            )
        raise AibError(f"{top} has no sub-folders: put the images in one sub-folder per class")
    return tuple(names)


def _is_folder(path: Path) -> bool:
    """Whether there is such a folder; False in one that may not be read, which `image_files` or
    `_sub_folders` reports."""
    with suppress(PermissionError):
        return path.is_dir()
    return False


def _sub_folders(folder: Path) -> list[str]:
    try:
        found = [p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]
    except PermissionError as error:
        raise AibError(f"{folder} cannot be read: {error.strerror}") from error
    return sorted(p.name for p in found)


def images_without_objects(folder: Path, skipped: dict[str, str] | None = None) -> list[Path]:
    """All image files below the folder but those that are read as masks; see `image_files`."""
    files = image_files(folder, skipped)
    below = {folder / p for file in files for p in file.relative_to(folder).parents}
    named = {p for p in below - {folder} if p.name == MASKS}
    objects = {p for p in named if _holds_objects(p, _sub_folders(p.parent))}
    return [path for path in files if objects.isdisjoint(path.parents)]
