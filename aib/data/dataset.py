"""Map-style data sets of other libraries: where items have image and label, and the classes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from aib.errors import AibError

KEYS = {"image": ("image", "img", "pixel_values"), "label": ("label", "labels")}


def first_item(dataset: Any) -> Any:
    """The first item; an error if there is none."""
    if len(dataset) == 0:
        raise AibError("the data set is empty")
    return dataset[0]


def find_columns(item: Any) -> tuple[Any, Any]:
    """Where an item, or a batch, has its image and its label: positions or keys."""
    if isinstance(item, tuple | list) and len(item) == 2:
        return 0, 1
    if isinstance(item, Mapping):
        image, label = (next((k for k in names if k in item), None) for names in KEYS.values())
        if image and label:
            return image, label
    raise AibError("an item of the data must be (image, label), or a dict with both")


def labels_of(dataset: Any, column: Any) -> list[Any]:
    """All labels; without reading the images where the data set lists them."""
    if isinstance(column, str) and hasattr(dataset, "features"):  # of Hugging Face
        return list(dataset[column])
    # torchvision's data sets have `targets`, which are the labels unless they are transformed.
    targets = getattr(dataset, "targets", None)
    listed = isinstance(targets, list | Tensor) and len(targets) == len(dataset)
    if listed and getattr(dataset, "target_transform", None) is None:
        return list(dataset.targets)
    return [dataset[i][column] for i in range(len(dataset))]


def names_of_classes(dataset: Any, column: Any) -> tuple[str, ...]:
    """The classes in the order of the labels, where the data set names them."""
    features = getattr(dataset, "features", None) or {}
    names = getattr(features.get(column), "names", None) or inner_attribute(dataset, "classes")
    # `classes` names the labels before a `target_transform`.
    if not isinstance(names, list | tuple) or inner_attribute(dataset, "target_transform"):
        return ()
    return tuple(str(name) for name in names)


def inner_attribute(dataset: Any, name: str) -> Any:
    """An attribute of the data set, or of the one that a Subset wraps."""
    while getattr(dataset, name, None) is None and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return getattr(dataset, name, None)
