"""CIFAR-10 and CIFAR-100, read from the binary official files."""

import numpy as np
import torch

from aib.data.files import check_count, read_records, require
from aib.data.imageset import ImageSet
from aib.data.specs import CIFAR10, CIFAR100, Spec

PIXELS = 3 * 32 * 32  # red, green and blue plane, each row by row
FILES10 = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}


def read_cifar10(split: str, *, root: str | None = None) -> ImageSet:
    """Read one split; a record is the label and the pixels."""
    return _read(CIFAR10, split, root, FILES10[split], 1)


def read_cifar100(split: str, *, root: str | None = None) -> ImageSet:
    """Read one split; a record is the coarse label, the fine one and the pixels."""
    return _read(CIFAR100, split, root, [split], 2)


def _read(spec: Spec, split: str, root: str | None, files: list[str], width: int) -> ImageSet:
    folder = require(spec, root)
    rows = np.concatenate([read_records(folder / f"{f}.bin", width + PIXELS) for f in files])
    check_count(spec, split, len(rows))
    labels = torch.from_numpy(rows[:, width - 1].astype(np.int64))
    images = torch.from_numpy(np.ascontiguousarray(rows[:, width:])).view(-1, 3, 32, 32)
    return ImageSet.of(spec, split, labels, images=images)
