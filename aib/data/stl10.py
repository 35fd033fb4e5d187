"""The labelled images of STL-10, with their own classes or matched to CIFAR-10's by name."""

import numpy as np
import torch

from aib.data.files import check_count, read_records, require
from aib.data.imageset import ImageSet
from aib.data.specs import CIFAR10, STL10
from aib.errors import AibError

SIDE = 96
CIFAR10_NAME = {"car": "automobile"}  # the one class with another name in CIFAR-10


def read(
    split: str, *, root: str | None = None, partial: bool = False, classes: str = "raw"
) -> ImageSet:
    """Read one split.

    classes: `raw` keeps STL-10's own indices; `cifar10` keeps the nine classes shared with
        CIFAR-10, with CIFAR-10's indices (without the monkeys).
    """
    if classes not in ("raw", "cifar10"):
        raise AibError(f"classes of stl10 must be 'raw' or 'cifar10', not '{classes}'")
    folder = require(STL10, root)
    rows = read_records(folder / f"{split}_X.bin", 3 * SIDE * SIDE)
    labels = read_records(folder / f"{split}_y.bin", 1)[:, 0].astype(np.int64) - 1
    check_count(STL10, split, len(labels), partial)
    # The file stores each plane column by column.
    images = rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 1, 3, 2)  # [N,3,96,96]
    names = STL10.classes
    if classes == "cifar10":
        renamed, names = [CIFAR10_NAME.get(name, name) for name in names], CIFAR10.classes
        labels = np.array([names.index(n) if n in names else -1 for n in renamed])[labels]
        images, labels = images[labels >= 0], labels[labels >= 0]
    pixels = torch.from_numpy(np.ascontiguousarray(images))
    return ImageSet.of(STL10, split, torch.from_numpy(labels), names, images=pixels)
