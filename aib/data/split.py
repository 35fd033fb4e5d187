"""Choices of images: a stratified held-out part, a recorded one, and random samples."""

from collections.abc import Collection

import torch
from torch import Tensor

from aib.config.validation import Fraction, check
from aib.data.imageset import ImageSet
from aib.errors import AibError


def stratified_split(
    labels: Tensor, holdout: float, seed: int, class_names: tuple[str, ...]
) -> tuple[Tensor, Tensor]:
    """Sorted indices (training, held out): about the share `holdout` of every class is held out.

    Depends only on the labels and the seed, so that every process finds the same split.
    """
    check("holdout", holdout, Fraction)
    if holdout == 0:
        return torch.arange(len(labels)), torch.empty(0, dtype=torch.int64)
    generator = torch.Generator().manual_seed(seed)
    held_out = []
    for label in labels.unique().tolist():
        members = (labels == label).nonzero().flatten()
        if len(members) < 2:
            raise AibError(
                f"class '{class_names[label]}' has one image, and a held-out part needs at least "
                "two: add images, or hold nothing out (a folder then needs its own test/)"
            )
        count = min(max(round(holdout * len(members)), 1), len(members) - 1)
        held_out.append(members[torch.randperm(len(members), generator=generator)[:count]])
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[torch.cat(held_out)] = True
    return (~chosen).nonzero().flatten(), chosen.nonzero().flatten()


def recorded_split(data: ImageSet, held_out: Collection[str | int]) -> tuple[Tensor, Tensor]:
    """Sorted indices (training, held out) of the images whose keys a run has recorded."""
    recorded = set(held_out)
    if missing := sorted(recorded - set(data.keys), key=str):
        raise AibError(
            f"{data.name} lacks {len(missing):,} of the {len(recorded):,} held-out images, such as "
            f"{missing[0]}: restore them or name other images"
        )
    chosen = torch.tensor([key in recorded for key in data.keys])
    return (~chosen).nonzero().flatten(), chosen.nonzero().flatten()


def sample_indices(total: int, count: int | None, seed: int) -> Tensor:
    """`count` of `total` indices, sampled without replacement and sorted; all of them for None."""
    if count is None or count >= total:
        return torch.arange(total)
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(total, generator=generator)[:count].sort().values
