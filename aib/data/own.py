"""A user's own data in Python: what `aib.fit`, `aib.evaluate` and studies take."""

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset

from aib.data.decode import to_image
from aib.data.decoded import SCALE
from aib.data.imageset import SMALL_SIDE, ImageFiles, ImageSet, check_memory
from aib.data.load import load
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError


def as_images(
    data: Any,
    model: Preprocessing,
    num_classes: int,
    *,
    preprocessing: Preprocessing | None = None,
    split: str = "test",
) -> ImageSet:
    """What a user gives as an ImageSet.

    model: preprocessing of the model, by which pixels are resized and normalised.
    preprocessing: what the user says instead.
    split: of a data set that is named, such as `folder:photos`.
    """
    if isinstance(data, DataLoader) and not isinstance(data.dataset, IterableDataset):
        # What it samples, each image once; its batches may be augmented or normalised.
        data = Subset(data.dataset, sorted({*data.sampler}))
    if isinstance(data, Subset) and isinstance(data.dataset, ImageSet):  # as of random_split
        data = data.dataset.subset(torch.as_tensor(data.indices).long())
    if isinstance(data, str):
        data = load(data, split)
    if isinstance(data, ImageSet):
        return data if preprocessing is None else data.prepared_for(preprocessing)
    if isinstance(data, tuple) and len(data) == 2:
        if len(data[0]) != len(data[1]):
            raise AibError(f"the data has {len(data[0])} images and {len(data[1])} labels")
        data = list(zip(*data, strict=True))
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise AibError(
            "the data must be an ImageSet, a name such as folder:PATH, (images, labels), or a "
            "map-style Dataset of (image, label) or its DataLoader"
        )
    return _read(data, preprocessing or model, num_classes, split)


def _read(dataset: Any, policy: Preprocessing, num_classes: int, split: str) -> ImageSet:
    """Read each item once; large images stay in memory at about the size of training crops."""
    side = round(SCALE * policy.image_size)
    check_memory(len(dataset), side)
    images, labels = [], []
    for index in range(len(dataset)):
        try:
            item = dataset[index]
            # Rows of Hugging Face's data sets are dicts.
            is_row = isinstance(item, Mapping)
            source, label = (item["image"], item["label"]) if is_row else item
            image = to_image(source)
            labels.append(operator.index(label))  # also numpy's integers, and tensors of one
        except Exception as error:  # a user's code can raise any
            raise AibError(
                f"item {index} of the data cannot be read as (image, integer label): {error}"
            ) from error
        scale = side / min(image.size)
        if scale < 1:
            image = image.resize((round(image.width * scale), round(image.height * scale)), 2)
        images.append(image)
    names = policy.class_names or tuple(map(str, range(num_classes)))
    policy, targets = replace(policy, class_names=names), torch.tensor(labels).long()
    found = ImageSet("custom", split, targets, policy, files=ImageFiles(tuple(images)))
    return found.in_memory() if policy.image_size <= SMALL_SIDE else found
