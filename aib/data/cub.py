"""CUB-200-2011, read from the official folder: whole images with boxes, or crops of the boxes.

Segmentations are another official archive, in a folder within the set's or beside it. Three of five
people called a pixel brighter than 127 part of the bird.
"""

from pathlib import Path

import torch

from aib.data.files import check_count, read_table, require
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.specs import CUB200


def read(split: str, *, root: str | None = None, crop: bool = False) -> ImageSet:
    """Read one split; `crop` crops images and masks to the boxes (there are no boxes then)."""
    folder = require(CUB200, root)
    paths = read_table(folder / "images.txt")
    labels = read_table(folder / "image_class_labels.txt")
    is_train = read_table(folder / "train_test_split.txt")
    boxes = read_table(folder / "bounding_boxes.txt")
    chosen = [i for i in paths if is_train[i] == ("1" if split == "train" else "0")]
    check_count(CUB200, split, len(chosen))
    corners = torch.tensor([[float(v) for v in boxes[i].split()] for i in chosen]).view(
        len(chosen), 4
    )
    indices = torch.tensor([int(labels[i]) - 1 for i in chosen])
    corners[:, 2:] += corners[:, :2]  # left, top, width, height -> left, top, right, bottom
    files = tuple(folder / "images" / paths[i] for i in chosen)
    objects = _segmentations(folder, [paths[i] for i in chosen])
    # '001.Black_footed_Albatross' -> 'Black_footed_Albatross'
    names = (name.split(".", 1)[-1] for name in read_table(folder / "classes.txt").values())
    content = ImageFiles(files, corners if crop else None, objects)
    kept = None if crop else corners
    keys = tuple(paths[i] for i in chosen)
    return ImageSet.of(CUB200, split, indices, tuple(names), files=content, boxes=kept, keys=keys)


def _segmentations(folder: Path, names: list[str]) -> tuple[Path | None, ...]:
    """The mask of each image, None where it is missing; empty without any."""
    for base in (folder / "segmentations", folder.parent / "segmentations"):
        files = [(base / name).with_suffix(".png") for name in names]
        objects = tuple(path if path.is_file() else None for path in files)
        if any(objects):
            return objects
    return ()
