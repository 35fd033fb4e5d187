"""CIFAR-10 and CIFAR-100, read from the binary or the pickled official files."""

import pickletools
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aib.data.files import check_count, check_labels, read_records, require, require_file
from aib.data.imageset import ImageSet
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
    """Read a pickled file without unpickling it, which could run code: only its opcodes are read.

    The pixels are the bytes after the flag of an array that is not in Fortran's order, the labels
    the integers after their name.
    """
    require_file(path)
    key = b"labels" if wanted == "label" else f"{wanted}_labels".encode()
    pixels, labels, last, before = b"", [], b"", ""
    try:
        for operation, value, _ in pickletools.genops(path.read_bytes()):
            if isinstance(value, str):  # Python 2 wrote byte strings, which are read as Latin-1
                value = value.encode("latin-1", "replace")
            if isinstance(value, bytes) and before == "NEWFALSE":
                pixels = value
            elif isinstance(value, bytes):
                last = value
            elif operation.name.startswith("BININT") and last == key:
                labels.append(value)
            before = operation.name
    except Exception as error:  # a damaged pickle can raise anything
        raise AibError(f"{path} is not a complete pickle file: fetch it again") from error
    if not labels or len(pixels) != PIXELS * len(labels):
        raise AibError(f"{path} does not hold bytes [N,{PIXELS}] with N {key.decode()}")
    return np.frombuffer(pixels, np.uint8).reshape(-1, PIXELS), np.array(labels)
