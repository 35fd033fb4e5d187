"""A user's own data in Python: what `aib.fit`, `aib.evaluate` and studies take."""

import operator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset

from aib.data.dataset import (
    find_columns,
    first_item,
    inner_attribute,
    labels_of,
    names_of_classes,
)
from aib.data.imageset import SMALL_SIDE, ImageItems, ImageSet
from aib.data.prepared import Prepared, prepare_batches
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError


def adapt(
    data: Any,
    model: Preprocessing,
    num_classes: int,
    *,
    batch_size: int,
    train: bool = False,
    preprocessing: Preprocessing | None = None,
    workers: int = 0,
    seed: int = 0,
) -> ImageSet | Prepared:
    """What a user gives, as an ImageSet or as batches of tensors that are used as they are.

    model: preprocessing of the model, which pixels are resized and normalised by.
    preprocessing: what the user says: for pixels instead of the model's, for tensors how they were
        made, which is unknown otherwise.
    """
    data = _part(data)
    if isinstance(data, ImageSet):
        return data if preprocessing is None else data.prepared_for(preprocessing)
    if isinstance(data, Prepared):
        return data
    inner = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(inner, str | Tensor | IterableDataset) or not hasattr(inner, "__getitem__"):
        raise AibError("the data must be an ImageSet, a map-style Dataset or a DataLoader of one")
    options: dict[str, Any] = {"num_classes": num_classes, "train": train}
    if isinstance(data, DataLoader):
        return prepare_batches(data, preprocessing, **options)
    item = first_item(data)
    image = item[find_columns(item)[0]]
    if not (isinstance(image, Tensor) and image.is_floating_point()):
        split = "train" if train else "test"
        return from_dataset(data, preprocessing or model, num_classes, split=split)
    loader: DataLoader = DataLoader(
        data, batch_size, shuffle=train, num_workers=workers, generator=torch.Generator()
    )
    return prepare_batches(loader, preprocessing, seed=seed, **options)


def as_images(
    data: Any,
    model: Preprocessing,
    num_classes: int,
    *,
    preprocessing: Preprocessing | None = None,
) -> ImageSet:
    """What a user gives as an ImageSet of pixels: an ImageSet, a Dataset or a DataLoader.

    Normalised tensors are read into memory, and turned back into pixels by `preprocessing` or the
    model's.
    """
    found = adapt(data, model, num_classes, batch_size=64, preprocessing=preprocessing)
    return found.to_images(model) if isinstance(found, Prepared) else found


def from_dataset(
    dataset: Any, preprocessing: Preprocessing, num_classes: int, *, split: str = "train"
) -> ImageSet:
    """An ImageSet of a map-style data set whose images are PIL images or uint8 pixels.

    Small images are read into memory, unless the data set has a `transform`, which may be random;
    others are read on access.
    """
    image, label = find_columns(first_item(dataset))
    try:  # also numpy's integers, and tensors of one
        labels = torch.tensor([operator.index(value) for value in labels_of(dataset, label)])
    except TypeError as error:
        raise AibError("the labels of the data must be integers") from error
    names = names_of_classes(dataset, label) or preprocessing.class_names
    policy = replace(preprocessing, class_names=names or tuple(map(str, range(num_classes))))
    items = ImageItems(dataset, image, torch.arange(len(labels)))
    images = ImageSet("custom", split, labels, policy, files=items)
    small = policy.image_size <= SMALL_SIDE and inner_attribute(dataset, "transform") is None
    return images.in_memory() if small else images


def _part(data: Any) -> Any:
    """A Subset of an ImageSet, as random_split makes, as an ImageSet; other data as they are."""
    if isinstance(data, Subset) and isinstance(whole := _part(data.dataset), ImageSet):
        return whole.subset(torch.as_tensor(data.indices).long())
    return data
