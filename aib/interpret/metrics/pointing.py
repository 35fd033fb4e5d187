"""How much of a map lies on the object: its maxima, its mass, and its ranking of the pixels.

Polarity matters: a map may highlight the background, and then its AUROC is below 1/2. It is
reported as it is, never inverted.

A mask is bool, or integers: 0 is background, 255 a pixel that counts in no score (the border of a
trimap), everything else the object.
"""

import torch
from torch import Tensor

from aib.data.objects import object_and_counted
from aib.interpret.metrics.checks import check_objects, resize_maps
from aib.interpret.metrics.similarity import auroc


def pointing(maps: Tensor, objects: Tensor) -> Tensor:
    """Share of a map's maxima that lie inside the mask, per image [B]."""
    maps, inside, counted = _paired(maps, objects)
    maps = maps.masked_fill(~counted, -torch.inf)
    maxima = (maps == maps.amax(dim=1, keepdim=True)) & counted
    share = (maxima & inside).sum(dim=1).double() / maxima.sum(dim=1)
    return _where_defined(share, inside, counted)


def energy_inside(maps: Tensor, objects: Tensor) -> Tensor:
    """Share of a map's positive mass inside the mask, per image [B]; NaN without positive mass."""
    maps, inside, counted = _paired(maps, objects)
    mass = maps.double().clamp_min(0) * counted
    return _where_defined((mass * inside).sum(dim=1) / mass.sum(dim=1), inside, counted)


def mask_auroc(maps: Tensor, objects: Tensor) -> Tensor:
    """How well a map tells the mask's pixels from the others, ties for one half, per image [B]."""
    return auroc(*_paired(maps, objects))


def _paired(maps: Tensor, objects: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    check_objects(objects, len(maps))
    maps = resize_maps(maps, (objects.shape[1], objects.shape[2]))
    inside, counted = object_and_counted(objects)
    return maps.flatten(1), inside.flatten(1), counted.flatten(1)  # [B,H*W] each


def _where_defined(values: Tensor, inside: Tensor, counted: Tensor) -> Tensor:
    pixels = inside.sum(dim=1)
    return values.masked_fill((pixels == 0) | (pixels == counted.sum(dim=1)), torch.nan)
