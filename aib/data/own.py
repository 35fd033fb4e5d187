"""A user's own data in Python: what `aib.fit`, `aib.evaluate` and studies take."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset

from aib.data.dataset import find_columns, first_item, from_dataset
from aib.data.imageset import ImageSet
from aib.data.prepared import Prepared, prepare_batches
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError

TAKEN = (
    "an aib.data.ImageSet, a map-style Dataset with items (image, label), or a DataLoader with "
    "batches (normalised images, labels)"
)


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
    options: dict[str, Any] = {"num_classes": num_classes, "train": train, "model": model}
    if isinstance(data, DataLoader):
        if data.batch_size is None or isinstance(data.dataset, IterableDataset):
            raise AibError("a DataLoader needs a map-style data set and a batch_size")
        return prepare_batches(data, preprocessing, batch_size=data.batch_size, **options)
    other = isinstance(data, str | Mapping | Tensor | np.ndarray | IterableDataset)
    if other or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise AibError(f"the data must be {TAKEN}, not a {type(data).__name__}")
    item = first_item(data)
    image = item[find_columns(data, item)[0]]
    if not (isinstance(image, Tensor) and image.is_floating_point()):
        policy = preprocessing or model
        return from_dataset(data, policy, num_classes, split="train" if train else "test")
    loader: DataLoader = DataLoader(
        data, batch_size, shuffle=train, num_workers=workers, generator=torch.Generator()
    )
    return prepare_batches(loader, preprocessing, batch_size=batch_size, seed=seed, **options)


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
    options = {"batch_size": 64, "preprocessing": preprocessing}
    found = adapt(data, model, num_classes, **options)
    return found.to_images(model) if isinstance(found, Prepared) else found


def _part(data: Any) -> Any:
    """A Subset of an ImageSet, as random_split makes, as an ImageSet; other data as they are."""
    if isinstance(data, Subset) and isinstance(whole := _part(data.dataset), ImageSet):
        return whole.subset(torch.as_tensor(data.indices).long())
    return data
