"""The published data sets, read from their official files; each function reads one split."""

from pathlib import Path

import numpy as np
import torch

from aib.data.files import check_count, read_records, read_table, require, require_file
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.objects import from_trimap
from aib.data.specs import CIFAR10, CIFAR100, CUB200, PETS, STL10, SVHN, Spec
from aib.errors import AibError, missing_extra

PIXELS = 3 * 32 * 32  # red, green and blue plane, each row by row
FILES10 = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}


def read_cifar10(split: str, *, root: str | None = None) -> ImageSet:
    """Read one split; a record is the label and the pixels."""
    return _read_cifar(CIFAR10, split, root, FILES10[split], 1)


def read_cifar100(split: str, *, root: str | None = None) -> ImageSet:
    """Read one split; a record is the coarse label, the fine one and the pixels."""
    return _read_cifar(CIFAR100, split, root, [split], 2)


def _read_cifar(spec: Spec, split: str, root: str | None, files: list[str], width: int) -> ImageSet:
    folder = require(spec, root)
    rows = np.concatenate([read_records(folder / f"{f}.bin", width + PIXELS) for f in files])
    check_count(spec, split, len(rows))
    labels = torch.from_numpy(rows[:, width - 1].astype(np.int64))
    images = torch.from_numpy(np.ascontiguousarray(rows[:, width:])).view(-1, 3, 32, 32)
    return ImageSet.of(spec, split, labels, images=images)


def read_svhn(split: str, *, root: str | None = None) -> ImageSet:
    """Cropped digits, from .mat files (needs scipy, the extra svhn)."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise missing_extra("svhn", "SVHN's .mat files need scipy") from error
    path = require_file(require(SVHN, root) / f"{split}_32x32.mat")
    try:
        content = loadmat(path)
    except Exception as error:  # a damaged .mat fails in many ways
        raise AibError(f"{path} cannot be read: truncated or damaged, fetch it again") from error
    pixels, labels = content["X"], content["y"].reshape(-1).astype(np.int64)
    check_count(SVHN, split, len(labels))
    labels[labels == 10] = 0  # the files label the digit zero as 10
    images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))  # [N,3,32,32]
    return ImageSet.of(SVHN, split, torch.from_numpy(labels), images=images)


def read_stl10(split: str, *, root: str | None = None) -> ImageSet:
    """The labelled images; evaluation matches their classes to CIFAR-10's by name."""
    folder = require(STL10, root)
    rows = read_records(folder / f"{split}_X.bin", 3 * 96 * 96)
    labels = read_records(folder / f"{split}_y.bin", 1)[:, 0].astype(np.int64) - 1
    check_count(STL10, split, len(labels))
    # The file stores each plane column by column.
    images = np.ascontiguousarray(rows.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2))
    return ImageSet.of(STL10, split, torch.from_numpy(labels), images=torch.from_numpy(images))


def read_pets(split: str, *, root: str | None = None) -> ImageSet:
    """37 breeds of cats and dogs; the border of a trimap is ignored in every score."""
    folder = require(PETS, root)
    annotations = folder / "annotations"
    # A line of a table: image, class from 1 to 37, species, breed of the species.
    files = {"train": "trainval.txt", "test": "test.txt"}
    tables = {name: read_table(annotations / file) for name, file in files.items()}
    chosen = tables[split]
    check_count(PETS, split, len(chosen))
    rows = {image: row for table in tables.values() for image, row in table.items()}
    classes = {image: int(row.split()[0]) for image, row in rows.items()}
    names = dict(sorted((label, image.rsplit("_", 1)[0]) for image, label in classes.items()))
    trimaps = [annotations / "trimaps" / f"{image}.png" for image in chosen]
    objects = tuple(path if path.is_file() else None for path in trimaps)
    images = tuple(folder / "images" / f"{image}.jpg" for image in chosen)
    content = ImageFiles(images, objects=objects if any(objects) else (), object_values=from_trimap)
    labels = torch.tensor([classes[image] - 1 for image in chosen])
    keys = tuple(f"{image}.jpg" for image in chosen)
    return ImageSet.of(PETS, split, labels, tuple(names.values()), files=content, keys=keys)


def read_cub(split: str, *, root: str | None = None, crop: bool = False) -> ImageSet:
    """CUB-200-2011: whole images with boxes, or with `crop` images and masks cropped to them.

    Segmentations are another official archive, in a folder within the set's or beside it. Three of
    five people called a pixel brighter than 127 part of the bird.
    """
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
