"""CIFAR-10 and CIFAR-100, read from the binary or the pickled official files."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aib.data.files import check_count, check_labels, read_records, require
from aib.data.imageset import ImageSet
from aib.data.safe_pickle import load_arrays
from aib.data.specs import CIFAR10, CIFAR100, CIFAR100_COARSE_CLASSES, Spec
from aib.errors import AibError

PIXELS = 3 * 32 * 32  # red, green and blue plane, each row by row

FILES10 = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}

Records = tuple[NDArray[np.uint8], NDArray[np.integer]]  # pixels [N,3072], labels [N]


def read_cifar10(split: str, *, root: str | None = None, partial: bool = False) -> ImageSet:
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
    label_bytes: list[str],  # in this order before the pixels of the binary form
    wanted: str,
) -> ImageSet:
    folder = require(spec, root)
    parts: list[Records] = []
    for name in files:
        if folder.name.endswith(("-py", "-python")):
            parts.append(_pickled(folder / name, wanted))
        else:
            rows = read_records(folder / f"{name}.bin", len(label_bytes) + PIXELS)
            parts.append((rows[:, len(label_bytes) :], rows[:, label_bytes.index(wanted)]))
    classes = CIFAR100_COARSE_CLASSES if wanted == "coarse" else spec.classes
    pixels = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts]).astype(np.int64)
    check_count(spec, split, len(labels), partial)
    check_labels(folder, labels, len(classes))
    images = torch.from_numpy(pixels).view(-1, 3, 32, 32)
    return ImageSet.of(spec, split, torch.from_numpy(labels), class_names=classes, images=images)


def _pickled(path: Path, wanted: str) -> Records:
    content = load_arrays(path)
    key = "labels" if wanted == "label" else f"{wanted}_labels"
    if "data" not in content or key not in content:
        raise AibError(f"{path} lacks 'data' or '{key}': it is not a pickled CIFAR file")
    pixels, labels = content["data"], content[key]
    if isinstance(labels, list) and all(isinstance(label, int) for label in labels):
        labels = np.asarray(labels)
    if not isinstance(labels, np.ndarray):  # nested lists could expand to billions of labels
        raise AibError(f"{path} does not hold a plain list of labels")
    if not (
        labels.ndim == 1
        and isinstance(pixels, np.ndarray)
        and pixels.dtype == np.uint8
        and pixels.shape == (len(labels), PIXELS)
        and np.issubdtype(labels.dtype, np.integer)
        and len(labels)
    ):
        raise AibError(f"{path} does not hold bytes [N,{PIXELS}] with N labels")
    return pixels, labels
