"""CUB-200-2011, read from the official folder: whole images with boxes, or crops of the boxes."""

from pathlib import Path

import torch

from aib.data.files import check_count, require
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.specs import CUB200
from aib.errors import AibError


def read(
    split: str, *, root: str | None = None, partial: bool = False, crop: bool = False
) -> ImageSet:
    """Read one split; `crop` crops each image to its bounding box (it then has no boxes)."""
    folder = require(CUB200, root)
    paths = _table(folder / "images.txt")
    labels = _table(folder / "image_class_labels.txt")
    is_train = _table(folder / "train_test_split.txt")
    boxes = _table(folder / "bounding_boxes.txt")
    for name, table in (("labels", labels), ("splits", is_train), ("boxes", boxes)):
        if table.keys() != paths.keys():
            raise AibError(f"{folder} has {len(paths)} images but {name} for {len(table)}")
    chosen = [i for i in paths if is_train[i] == ("1" if split == "train" else "0")]
    check_count(CUB200, split, len(chosen), partial)
    try:
        corners = torch.tensor([[float(v) for v in boxes[i].split()] for i in chosen])
        indices = torch.tensor([int(labels[i]) - 1 for i in chosen])
    except ValueError as error:
        raise AibError(f"{folder} has a label or box that is not a number: {error}") from error
    if corners.shape != (len(chosen), 4):
        raise AibError(f"{folder} has no images in '{split}', or boxes that are not four numbers")
    corners[:, 2:] += corners[:, :2]  # left, top, width, height -> left, top, right, bottom
    files = tuple(_inside(folder / "images", paths[i]) for i in chosen)
    return ImageSet.of(
        CUB200,
        split,
        indices,
        class_names=_class_names(folder),
        files=ImageFiles(files, corners if crop else None),
        boxes=None if crop else corners,
    )


def _table(path: Path) -> dict[str, str]:
    """Read the lines `id value...` of one of the official text files."""
    if not path.is_file():
        raise AibError(f"{path} is missing: the set is incomplete, fetch it again")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise AibError(f"{path} is not a text file: fetch it again") from error
    rows = [line.split(maxsplit=1) for line in lines if line.strip()]
    if not rows or any(len(row) != 2 for row in rows):
        raise AibError(f"{path} is not a table of 'id value' lines: fetch it again")
    return {row[0]: row[1].strip() for row in rows}


def _class_names(folder: Path) -> tuple[str, ...]:
    """'001.Black_footed_Albatross' -> 'Black_footed_Albatross'"""
    return tuple(name.split(".", 1)[-1] for name in _table(folder / "classes.txt").values())


def _inside(images: Path, name: str) -> Path:
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise AibError(f"{images.parent / 'images.txt'} names '{name}', outside its folder")
    return images / name
