"""Batches of tensors that are normalised already, as a user's own loader gives them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from aib.data.dataset import find_columns, names_of_classes
from aib.data.imageset import ImageSet
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError


@dataclass(frozen=True)
class Prepared:
    """Batches of tensors that are normalised already: they are given to the model as they are.

    In training an incomplete last batch is dropped, as in `Batches`.
    """

    loader: DataLoader
    columns: tuple[Any, Any]  # where a batch has its images and its labels
    preprocessing: Preprocessing  # mean and std are empty if they are unknown
    num_classes: int
    batch_size: int
    train: bool = False
    seed: int | None = None  # of the order, if the loader is ours
    device: torch.device | str = "cpu"
    name: str = "custom"
    split: str = "test"

    @property
    def num_images(self) -> int:
        return len(self.loader.sampler)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """Number of batches per epoch."""
        return self.num_images // self.batch_size if self.train else len(self.loader)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """x float32 [B,3,S,S] and y int64 [B] from step `start` of the epoch on.

        The batches before `start` are read and dropped.
        """
        if self.seed is not None:
            mixed = np.random.SeedSequence([self.seed, epoch]).generate_state(1)[0]
            self.loader.generator.manual_seed(int(mixed))
        for batch in islice(self.loader, start, len(self)):
            x, y = (batch[column] for column in self.columns)
            side, count = self.preprocessing.image_size, self.num_classes
            if list(x.shape[1:]) != [3, side, side]:
                raise AibError(f"all batches must have images [B,3,{side},{side}], as the first")
            if y.shape != x.shape[:1] or y.is_floating_point() or y.min() < 0 or y.max() >= count:
                raise AibError(f"batches must have integer labels [B] from 0 to {count - 1}")
            # A copy: the training may overwrite it.
            yield x.to(self.device, torch.float32, copy=True), y.to(self.device, torch.int64)

    def to_images(self, model: Preprocessing) -> ImageSet:
        """All images as pixels in memory: the normalisation undone, by default the model's."""
        policy = self.preprocessing if self.preprocessing.mean else model
        policy.statistics()  # an error if it is unknown
        x, y = (torch.cat(parts) for parts in zip(*self.epoch(0), strict=True))
        return ImageSet.from_tensors(
            policy.to_pixels(x),
            y,
            class_names=model.class_names or tuple(map(str, range(self.num_classes))),
            mean=policy.mean,
            std=policy.std,
            name=self.name,
            split=self.split,
        )


def prepare_batches(
    loader: DataLoader,
    given: Preprocessing | None,
    num_classes: int,
    train: bool,
    seed: int | None = None,
) -> Prepared:
    """Batches of a loader, once its first one has been checked."""
    batch = next(iter(loader), None) if len(loader) else None
    if batch is None or loader.batch_size is None:
        raise AibError("the DataLoader needs images and a batch_size")
    columns = find_columns(batch)
    x = batch[columns[0]]
    square = isinstance(x, Tensor) and x.ndim == 4 and x.shape[1] == 3 and x.shape[2] == x.shape[3]
    if not square or not x.is_floating_point():
        raise AibError(
            "a DataLoader must give normalised floats [B,3,S,S]: to have pixels normalised and "
            "augmented, give the data set itself"
        )
    policy = given or Preprocessing(x.shape[-1], mean=(), std=())
    if policy.image_size != x.shape[-1]:
        raise AibError(
            f"preprocessing= says {policy.image_size} pixels, and the images have {x.shape[-1]}"
        )
    names = policy.class_names or names_of_classes(loader.dataset, columns[1])
    policy = replace(policy, class_names=names)
    return Prepared(loader, columns, policy, num_classes, loader.batch_size, train, seed)
