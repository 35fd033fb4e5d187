"""The labelled images of STL-10."""

import numpy as np
import torch

from aib.data.files import check_count, read_records, require
from aib.data.imageset import ImageSet
from aib.data.specs import STL10

SIDE = 96


def read(split: str, *, root: str | None = None) -> ImageSet:
    """Read one split; evaluation matches its classes to CIFAR-10's by name."""
    folder = require(STL10, root)
    rows = read_records(folder / f"{split}_X.bin", 3 * SIDE * SIDE)
    labels = read_records(folder / f"{split}_y.bin", 1)[:, 0].astype(np.int64) - 1
    check_count(STL10, split, len(labels))
    # The file stores each plane column by column.
    images = np.ascontiguousarray(rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 1, 3, 2))
    return ImageSet.of(STL10, split, torch.from_numpy(labels), images=torch.from_numpy(images))
