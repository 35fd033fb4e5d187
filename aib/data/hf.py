"""Hugging Face data sets: `hf:NAME` and `hf:NAME:CONFIG`, through the package `datasets`."""

import operator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from aib.data.dataset import COLUMNS, FEATURES, find_columns, from_dataset
from aib.data.decode import to_image
from aib.data.imageset import ImageSet
from aib.data.preprocessing import Preprocessing, Resize
from aib.data.specs import IMAGENET_MEAN, IMAGENET_STD
from aib.errors import AibError, first_line, missing_extra

IMAGE_SIZE = 224  # default, or that of the first image if it is smaller
NAMES = {"train": ("train",), "val": ("validation", "valid", "val", "dev"), "test": ("test",)}


@cache
def has_split(path: Path, split: str) -> bool:
    """Whether there is such a split, with labels: those of a test set may be secret (-1, None)."""
    dataset = _find(path, split)
    if dataset is None or len(dataset) == 0:
        return False
    labels = [k for k, f in dataset.features.items() if type(f).__name__ == FEATURES["label"]]
    labels = labels or [k for k in COLUMNS["label"] if k in dataset.features]
    return all({-1, None}.isdisjoint(dataset[name]) for name in labels)


def read(
    split: str, *, path: Path, resize: Resize = "squash", image: str = "", label: str = ""
) -> ImageSet:
    """Read one split; `image` and `label` are columns, by default found by their types."""
    dataset = _find(path, split)
    if dataset is None:
        raise AibError(f"hf:{path} has no split '{split}'; it has {', '.join(_load(path))}")
    if len(dataset) == 0:
        raise AibError(f"hf:{path} has no images in split '{split}'")
    size = image_size(path, split, image, label)
    column = find_columns(dataset, dataset[0], image, label)[1]
    names, count = _text_labels(path, column), _count_integers(path, column)
    policy = Preprocessing(min(size, IMAGE_SIZE), resize, IMAGENET_MEAN, IMAGENET_STD, names)
    name = f"hf:{path}"
    return from_dataset(dataset, policy, count, split=split, name=name, image=image, label=label)


def image_size(path: Path, split: str = "train", image: str = "", label: str = "") -> int:
    """The longer side of the first image."""
    dataset = _find(path, split)
    first = dataset[0]
    column, _ = find_columns(dataset, first, image, label)
    return max(to_image(first[column]).size)


def _text_labels(path: Path, column: str) -> tuple[str, ...]:
    """The classes of all splits together if the labels are text; () for a ClassLabel."""
    parts = _labelled(path, column)
    if not any(isinstance(part[0][column], str) for part in parts):
        return ()
    return tuple(sorted({text for part in parts for text in part[column] if text is not None}))


def _count_integers(path: Path, column: str) -> int | None:
    """The number of classes in all splits together if the labels are integers, else None."""
    parts, highest = _labelled(path, column), -1
    if any(type(part.features[column]).__name__ == "ClassLabel" for part in parts):
        return None  # it knows its classes
    for part in parts:
        with suppress(TypeError):  # text, or None for secret labels
            highest = max(highest, max(map(operator.index, part[column])))
    return None if highest < 0 else highest + 1


def _labelled(path: Path, column: str) -> list[Any]:
    """The splits that have images and this column of labels."""
    return [part for part in _load(path).values() if len(part) and column in part.features]


def _find(path: Path, split: str) -> Any:
    splits = _load(path)
    return next((splits[name] for name in NAMES.get(split, (split,)) if name in splits), None)


@cache
def _load(path: Path) -> Any:
    """All splits by name, downloaded once by `datasets` into its own cache."""
    try:
        import datasets
    except ImportError as error:
        raise missing_extra("datasets", f"hf:{path} needs the package datasets") from error
    name, _, config = path.as_posix().partition(":")
    try:
        return datasets.load_dataset(name, config or None)
    except Exception as error:  # of the network, the hub, or the files
        raise AibError(f"hf:{path} cannot be loaded: {first_line(error)}") from error
