"""Where is the object? Maps against ground-truth masks or boxes.

Polarity matters: a map may highlight the background, and then its AUROC is below 1/2. It is
reported as it is, never turned round.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

from aib.errors import AibError
from aib.figures.scale import enlarge
from aib.interpret.metrics.bootstrap import ratio_interval
from aib.interpret.metrics.checks import check_maps, shape
from aib.interpret.metrics.similarity import auroc


def resize_maps(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Maps [B,h,w] bilinearly to [B,H,W]; ties stay ties."""
    check_maps(maps)
    return enlarge(maps, size)


def boxes_to_masks(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes [B,4] or [B,n,4] to bool masks [B,H,W], the union of an image's boxes.

    A box is (left, top, right, bottom) in pixels from the image's corner, and holds the pixels
    whose centres lie in it. A row of NaN is no box: it pads images that have fewer.
    """
    if boxes.ndim not in (2, 3) or boxes.shape[-1] != 4:
        raise AibError(f"boxes must have the shape [B,4] or [B,n,4], not {shape(boxes)}")
    boxes = boxes.float().reshape(len(boxes), -1, 4)  # [B,n,4]
    left, top, right, bottom = boxes[:, :, None, :].unbind(dim=-1)  # [B,n,1] each
    y = torch.arange(size[0], device=boxes.device) + 0.5
    x = torch.arange(size[1], device=boxes.device) + 0.5
    rows = (y >= top) & (y < bottom)  # [B,n,H]
    columns = (x >= left) & (x < right)  # [B,n,W]
    return (rows[:, :, :, None] & columns[:, :, None, :]).any(dim=1)  # [B,H,W]


def pointing(maps: Tensor, masks: Tensor) -> Tensor:
    """Share of a map's maxima that lie inside the mask, per image [B]."""
    maps, masks = _paired(maps, masks)
    maxima = maps == maps.amax(dim=1, keepdim=True)
    return _where_defined((maxima & masks).sum(dim=1).double() / maxima.sum(dim=1), masks)


def energy_inside(maps: Tensor, masks: Tensor) -> Tensor:
    """Share of a map's positive mass inside the mask, per image [B]; NaN without positive mass."""
    maps, masks = _paired(maps, masks)
    mass = maps.double().clamp_min(0)
    return _where_defined((mass * masks).sum(dim=1) / mass.sum(dim=1), masks)


def mask_auroc(maps: Tensor, masks: Tensor) -> Tensor:
    """How well a map tells the mask's pixels from the others, ties for one half, per image [B]."""
    return auroc(*_paired(maps, masks))


FIGURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pointing": pointing,
    "energy": energy_inside,
    "auroc": mask_auroc,
}


class Localisation(Metric):
    """Pointing game, energy inside and AUROC: computed per image, then averaged.

    `compute` returns scalar tensors by name: each figure (0 to 1), `FIGURE_low` and `FIGURE_high`
    (bootstrap over images), `FIGURE_undefined` (images left out: the mask covers everything or
    nothing, or the map has no positive mass), and `images`.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    broken: Tensor

    def __init__(
        self,
        figures: Sequence[str] = tuple(FIGURES),
        *,
        resamples: int = 1000,
        confidence: float = 0.95,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        unknown = [name for name in figures if name not in FIGURES]
        if unknown or not figures:
            raise AibError(f"figures must be among {', '.join(FIGURES)}, not {list(figures)}")
        self.figures = tuple(figures)
        self.resamples, self.confidence, self.seed = resamples, confidence, seed
        for name in self.figures:
            self.add_state(name, default=[], dist_reduce_fx="cat")
        self.add_state("broken", default=torch.tensor(0), dist_reduce_fx="sum")

    def update(self, maps: Tensor, masks: Tensor) -> None:
        """Maps [B,h,w], bilinearly resized to the masks [B,H,W] (bool, or integers: not 0)."""
        check_masks(masks, len(maps))
        maps = resize_maps(maps, (masks.shape[1], masks.shape[2]))
        for name in self.figures:
            getattr(self, name).append(FIGURES[name](maps, masks).float())
        self.broken = self.broken + (~maps.isfinite()).flatten(1).any(dim=1).sum()

    def compute(self) -> dict[str, Tensor]:
        """The figures named above; NaN where no image defines one."""
        # Looked at here rather than in `update`, which would have to wait for the device.
        if int(self.broken):
            raise AibError(f"the maps of {int(self.broken)} images hold NaN or infinite values")
        values = torch.stack([self._rows(name) for name in self.figures], dim=1)  # [N,F]
        defined = (~values.isnan()).double()
        values = values.nan_to_num()
        low, high = ratio_interval(
            values,
            defined,
            resamples=self.resamples,
            confidence=self.confidence,
            seed=self.seed,
        )
        mean = values.sum(dim=0) / defined.sum(dim=0)
        undefined = (1 - defined).sum(dim=0).long()
        figures = {"images": torch.tensor(len(values), device=values.device)}
        for i, name in enumerate(self.figures):
            figures |= {name: mean[i], f"{name}_low": low[i], f"{name}_high": high[i]}
            figures[f"{name}_undefined"] = undefined[i]
        return figures

    def _rows(self, name: str) -> Tensor:
        values = getattr(self, name)
        if isinstance(values, list) and not values:
            raise AibError("no maps were given: call update before compute")
        return dim_zero_cat(values).double()  # [N]


def check_masks(masks: Tensor, count: int) -> None:
    """One mask an image: [B,H,W], bool or integers."""
    if masks.ndim != 3 or masks.numel() == 0 or len(masks) != count:
        raise AibError(f"masks must have the shape [{count},H,W], not {shape(masks)}")
    if masks.is_floating_point() or masks.is_complex():
        raise AibError(f"masks must be bool or integers (threshold them first), not {masks.dtype}")


def _paired(maps: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    check_masks(masks, len(maps))
    maps = resize_maps(maps, (masks.shape[1], masks.shape[2]))
    return maps.flatten(1), masks.flatten(1) != 0  # [B,H*W] each


def _where_defined(values: Tensor, masks: Tensor) -> Tensor:
    inside = masks.sum(dim=1)
    return values.masked_fill((inside == 0) | (inside == masks.shape[1]), torch.nan)
