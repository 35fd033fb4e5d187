"""CIFAR-10 and CIFAR-100, read from the binary official files."""

import numpy as np
import torch

from aib.data.files import check_count, check_labels, read_records, require
from aib.data.imageset import ImageSet
from aib.data.specs import CIFAR10, CIFAR100, CIFAR100_COARSE_CLASSES, Spec
from aib.errors import AibError

PIXELS = 3 * 32 * 32  # red, green and blue plane, each row by row
FILES10 = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}


def read_cifar10(split: str, *, root: str | None = None, partial: bool = False) -> ImageSet:
    """Read one split of CIFAR-10."""
    return _read(CIFAR10, split, root, partial, FILES10[split], ["label"], "label")


def read_cifar100(
    split: str, *, root: str | None = None, partial: bool = False, labels: str = "fine"
) -> ImageSet:
    """Read CIFAR-100 with its 100 `fine` or 20 `coarse` labels."""
    if labels not in ("fine", "coarse"):
        raise AibError(f"labels of cifar100 must be 'fine' or 'coarse', not '{labels}'")
    return _read(CIFAR100, split, root, partial, [split], ["coarse", "fine"], labels)


def _read(
    spec: Spec,
    split: str,
    root: str | None,
    partial: bool,
    files: list[str],
    label_bytes: list[str],  # in this order before the pixels
    wanted: str,
) -> ImageSet:
    folder = require(spec, root)
    width = len(label_bytes)
    rows = np.concatenate([read_records(folder / f"{f}.bin", width + PIXELS) for f in files])
    labels = rows[:, label_bytes.index(wanted)].astype(np.int64)
    classes = CIFAR100_COARSE_CLASSES if wanted == "coarse" else spec.classes
    check_count(spec, split, len(labels), partial)
    check_labels(folder, labels, len(classes))
    images = torch.from_numpy(np.ascontiguousarray(rows[:, width:])).view(-1, 3, 32, 32)
    return ImageSet.of(spec, split, torch.from_numpy(labels), class_names=classes, images=images)
