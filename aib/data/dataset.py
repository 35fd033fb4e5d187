"""Map-style data sets of other libraries: where items have image and label, and the classes."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from aib.data.imageset import SMALL_SIDE, ImageItems, ImageSet
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError

COLUMNS = {"image": ("image", "img", "pixel_values"), "label": ("label", "labels")}
FEATURES = {"image": "Image", "label": "ClassLabel"}  # their types in the package `datasets`


def from_dataset(
    dataset: Any,
    preprocessing: Preprocessing,
    num_classes: int | None = None,
    *,
    split: str = "train",
    name: str = "custom",
    image: str = "",
    label: str = "",
) -> ImageSet:
    """An ImageSet of a map-style data set whose images are PIL images or uint8 pixels.

    Small images are read into memory, unless the data set has a `transform`, which may be random;
    others are read on access. `image` and `label` are the columns of a Hugging Face data set; by
    default they are found by the types of its features. Labels that are text are the names of
    classes: those of `preprocessing` if they are among them, else in alphabetical order.
    """
    columns = find_columns(dataset, first_item(dataset), image, label)
    values = _labels(dataset, columns[1])
    if texts := {value for value in values if isinstance(value, str)}:
        if not texts <= set(preprocessing.class_names):
            preprocessing = replace(preprocessing, class_names=tuple(sorted(texts)))
        num_classes = len(preprocessing.class_names)
        indices = {name: i for i, name in enumerate(preprocessing.class_names)}
        values = [indices.get(value, value) for value in values]
    labels = torch.tensor([_integer(value) for value in values])
    count = int(labels.max()) + 1 if num_classes is None else num_classes
    names = preprocessing.class_names if len(preprocessing.class_names) == count else ()
    names = names_of_classes(dataset, columns[1]) or names or tuple(str(i) for i in range(count))
    policy = replace(preprocessing, class_names=names)
    items = ImageItems(dataset, columns[0], torch.arange(len(labels)))
    found = ImageSet(name, split, labels, policy, files=items)
    small = policy.image_size <= SMALL_SIDE and inner_attribute(dataset, "transform") is None
    return found.in_memory() if small else found


def find_columns(dataset: Any, item: Any, image: str = "", label: str = "") -> tuple[Any, Any]:
    """Where an item, or a batch, has its image and its label: positions or keys."""
    if isinstance(item, Mapping):
        return _find(dataset, item, "image", image), _find(dataset, item, "label", label)
    if isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2:
        return 0, 1
    parts = f"{len(item)} parts" if isinstance(item, tuple | list) else kind_of(item)
    raise AibError(f"an item of the data must be (image, label), and the first one is {parts}")


def _find(dataset: Any, item: Mapping[str, Any], what: str, given: str) -> str:
    features = getattr(dataset, "features", None) or {}
    typed = [k for k in item if type(features.get(k)).__name__ == FEATURES[what]]
    found = [given] if given else typed or [k for k in COLUMNS[what] if k in item]
    if len(found) == 1 and found[0] in item:
        return found[0]
    raise AibError(
        f"the data needs one column for the {what}, not {', '.join(found) or 'none'}: it has "
        f"{', '.join(item)}"
    )


def _labels(dataset: Any, column: Any) -> list[Any]:
    """All labels; without reading the images where the data set lists them."""
    if isinstance(column, str) and getattr(dataset, "features", None):
        return list(dataset[column])
    # torchvision's data sets have `targets`, which are the labels unless they are transformed.
    targets = getattr(dataset, "targets", None)
    listed = isinstance(targets, list | Tensor) and len(targets) == len(dataset)
    if listed and getattr(dataset, "target_transform", None) is None:
        return list(dataset.targets)
    return [dataset[i][column] for i in range(len(dataset))]


def _integer(label: Any) -> int:
    try:
        return operator.index(label)  # also of numpy's integers, and tensors of one
    except TypeError as error:
        reason = f"labels must be integers, or all of them text, not {kind_of(label)}"
        raise AibError(reason) from error


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


def first_item(dataset: Any) -> Any:
    """The first item; an error if there is none."""
    if len(dataset) == 0:
        raise AibError("the data set is empty")
    return dataset[0]


def kind_of(value: Any) -> str:
    """A value in an error message: type, and shape where it has one."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return type(value).__name__ + (f" {value.size}" if isinstance(value, Image.Image) else "")
