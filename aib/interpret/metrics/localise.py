"""Localisation: maps against ground-truth masks or boxes.

Polarity matters: a map may highlight the background, and then its AUROC is below 1/2. It is
reported as it is, never inverted.

A mask is bool, or integers: 0 is background, 255 a pixel that counts in no score (the border of a
trimap), everything else the object.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aib.data.objects import object_and_counted
from aib.errors import AibError
from aib.interpret.metrics.checks import resize_maps, shape
from aib.interpret.metrics.metric import BootstrapMetric
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


METRICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pointing": pointing,
    "energy": energy_inside,
    "auroc": mask_auroc,
}


class Localisation(BootstrapMetric):
    """Pointing game, mass inside and AUROC: computed per image, then averaged.

    `compute` returns scalar tensors by name: each metric (0 to 1), `NAME_low` and `NAME_high`
    (bootstrap over images), `NAME_undefined` (images left out: the mask covers everything or
    nothing, or the map has no positive mass), and `images`. Without any image a metric is NaN.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in METRICS:
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, maps: Tensor, objects: Tensor) -> None:
        """Add maps [B,h,w], bilinearly resized to the masks [B,H,W] (bool or integers)."""
        check_objects(objects, len(maps))
        maps = resize_maps(maps, (objects.shape[1], objects.shape[2]))
        for name, metric in METRICS.items():
            getattr(self, name).append(metric(maps, objects).float())
        self.count_broken(maps)

    def compute(self) -> dict[str, Tensor]:
        """The values named above."""
        values = {name: self.per_image(name) for name in METRICS}  # [N] each
        defined = {name: (~v.isnan()).double() for name, v in values.items()}
        found = self.ratios({name: (v.nan_to_num(), defined[name]) for name, v in values.items()})
        for name, has_value in defined.items():
            found[f"{name}_undefined"] = (1 - has_value).sum().long()
        images = len(values["auroc"])
        return found | {"images": torch.tensor(images, device=self.broken.device)}


def check_objects(objects: Tensor, count: int) -> None:
    """Check one mask per image: [B,H,W], bool or integers."""
    if objects.ndim != 3 or objects.numel() == 0 or len(objects) != count:
        raise AibError(f"masks must have the shape [{count},H,W], not {shape(objects)}")
    if objects.is_floating_point() or objects.is_complex():
        raise AibError(
            f"masks must be bool or integers (threshold them first), not {objects.dtype}"
        )


def _paired(maps: Tensor, objects: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    check_objects(objects, len(maps))
    maps = resize_maps(maps, (objects.shape[1], objects.shape[2]))
    inside, counted = object_and_counted(objects)
    return maps.flatten(1), inside.flatten(1), counted.flatten(1)  # [B,H*W] each


def _where_defined(values: Tensor, inside: Tensor, counted: Tensor) -> Tensor:
    pixels = inside.sum(dim=1)
    return values.masked_fill((pixels == 0) | (pixels == counted.sum(dim=1)), torch.nan)
