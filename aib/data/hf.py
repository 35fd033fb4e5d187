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
    names, count = _classes(path, column)
    policy = Preprocessing(min(size, IMAGE_SIZE), resize, IMAGENET_MEAN, IMAGENET_STD, names)
    name = f"hf:{path}"
    return from_dataset(dataset, policy, count, split=split, name=name, image=image, label=label)


def image_size(path: Path, split: str = "train", image: str = "", label: str = "") -> int:
    """The longer side of the first image."""
    dataset = _find(path, split)
    first = dataset[0]
    column, _ = find_columns(dataset, first, image, label)
    return max(to_image(first[column]).size)


def _classes(path: Path, column: str) -> tuple[tuple[str, ...], int | None]:
    """Names and number of the classes of all splits together; none where a ClassLabel has them."""
    parts = [part for part in _load(path).values() if len(part) and column in part.features]
    if any(type(part.features[column]).__name__ == FEATURES["label"] for part in parts):
        return (), None
    values = {value for part in parts for value in part[column] if value is not None}
    if texts := {value for value in values if isinstance(value, str)}:
        return tuple(sorted(texts)), None
    with suppress(TypeError):
        return (), max(map(operator.index, values)) + 1
    return (), None


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
