"""Batches of tensors that are normalised already, as a user's own loader gives them."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, SequentialSampler

from aib.data.dataset import find_columns, kind_of, names_of_classes
from aib.data.imageset import ImageSet
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, AibWarning


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

    @property
    def in_order(self) -> bool:
        """Whether every epoch has the images in the same order."""
        return isinstance(self.loader.sampler, SequentialSampler)

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
            self._check(x, y)
            # A copy: the training may overwrite it.
            yield x.to(self.device, torch.float32, copy=True), y.to(self.device, torch.int64)

    def _check(self, x: Any, y: Any) -> None:
        side = self.preprocessing.image_size
        if not (isinstance(x, Tensor) and list(x.shape[1:]) == [3, side, side] and len(x)):
            raise AibError(
                f"batches must have images [B,3,{side},{side}] like the first one, not {kind_of(x)}"
            )
        if not isinstance(y, Tensor) or y.shape != x.shape[:1] or y.is_floating_point():
            raise AibError(f"batches must have labels [B] of an integer type, not {kind_of(y)}")
        low, high = int(y.min()), int(y.max())
        if low < 0 or high >= self.num_classes:
            raise AibError(
                f"the data has labels from {low} to {high}, and the model {self.num_classes} "
                f"classes, 0 to {self.num_classes - 1}"
            )
        if self.train and len(x) != self.batch_size:
            raise AibError(f"every training batch must have {self.batch_size} images, not {len(x)}")

    def to_images(self, model: Preprocessing) -> ImageSet:
        """All images as pixels in memory: the normalisation undone, by default the model's."""
        policy = self.preprocessing if self.preprocessing.mean else model
        policy.statistics()  # an error if it is unknown
        x, y = (torch.cat(parts) for parts in zip(*self.epoch(0), strict=True))
        names = model.class_names or tuple(str(i) for i in range(self.num_classes))
        return ImageSet.from_tensors(
            policy.to_pixels(x),
            y,
            class_names=names,
            mean=policy.mean,
            std=policy.std,
            name=self.name,
            split=self.split,
        )


def prepare_batches(
    loader: DataLoader,
    given: Preprocessing | None,
    *,
    batch_size: int,
    model: Preprocessing,
    train: bool,
    **options: Any,
) -> Prepared:
    """Batches of a loader, once its first one has been checked."""
    batch = next(iter(loader), None) if len(loader) else None
    if batch is None:
        raise AibError("the DataLoader is empty: its data set has no images")
    columns = find_columns(loader.dataset, batch)
    x = batch[columns[0]]
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise AibError(
            f"a DataLoader must give normalised floats [B,3,S,S], not {kind_of(x)}: to have pixels "
            "normalised and augmented, give the data set itself"
        )
    if x.ndim != 4 or x.shape[1] != 3 or x.shape[2] != x.shape[3]:
        raise AibError(f"images must be square, [B,3,S,S], not {list(x.shape)}")
    policy = given or Preprocessing(x.shape[-1], mean=(), std=())
    # A model can be trained on pixels in 0..1, if the user does not say that they are normalised.
    (policy if policy.mean else model).warn_of_pixels(x, up_to_one=bool(policy.mean) or not train)
    names = names_of_classes(loader.dataset, columns[1])
    if not train:  # training takes over the names of the data
        _check_indices(names, model.class_names)
    policy = replace(policy, class_names=policy.class_names or names)
    if policy.image_size != x.shape[-1]:
        sizes = f"{policy.image_size} pixels, and the data has {x.shape[-1]}"
        raise AibError(f"preprocessing says images of {sizes}")
    return Prepared(loader, columns, policy, batch_size=batch_size, train=train, **options)


def _check_indices(names: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Warn of a class that has another index in the data than in the model."""
    moved = [(n, i) for i, n in enumerate(names) if n in known and known.index(n) != i]
    if moved:
        name, index = moved[0]
        warnings.warn(
            f"the class '{name}' is {index} in the data and {known.index(name)} in the model: give "
            "PIL images, whose classes are matched by name",
            AibWarning,
            stacklevel=2,
        )
