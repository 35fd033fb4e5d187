"""The interpretability score: do maps stay put when a modification leaves the decision as it was?

The paper gives neither a threshold nor the normalisation of its cosine. Here maps are min-max
scaled, the primary threshold is 0.9, and 0.85 and 0.95 always stand beside it.

A constant map scores 100, having nothing that could move. So the score never stands alone: the
centred cosine, the maps' contrast and the count of flat maps come with it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

from aib.errors import AibError
from aib.interpret.metrics.bootstrap import ratio_interval
from aib.interpret.metrics.checks import shape
from aib.interpret.metrics.similarity import centred_cosine, cosine, min_max

PRIMARY_TAU = 0.9
TAUS = (0.85, PRIMARY_TAU, 0.95)


class InterpretabilityScore(Metric):
    """Share of prediction-consistent images whose maps agree, with all that it takes to judge it.

    `compute` returns scalar tensors by name. With an interval (`NAME_low`, `NAME_high`):

    - `score_TAU`: percentage of prediction-consistent images (same argmax, right or wrong) whose
      scaled maps have a cosine of at least TAU; flat against flat agrees, flat against not flat
      does not;
    - `centred_TAU`: the same with the centred cosine, over the images where it is defined;
    - `centred_mean`: the centred cosine's mean over those images, -1 to 1;
    - `prediction_consistent`: percentage of all images.

    Without: `images`, `centred_undefined` (prediction-consistent images with a flat map),
    `contrast` and `contrast_modified` (max - min, mean over all images), `flat` and
    `flat_modified` (counts over all images). A figure over no image at all is NaN.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    cosine: list[Tensor]
    centred: list[Tensor]
    consistent: list[Tensor]
    contrast: list[Tensor]
    contrast_modified: list[Tensor]
    flat: Tensor
    flat_modified: Tensor

    def __init__(
        self,
        taus: Sequence[float] = TAUS,
        *,
        resamples: int = 1000,
        confidence: float = 0.95,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not taus or not all(0 < tau < 1 for tau in taus):
            raise AibError(f"taus must lie between 0 and 1, not {list(taus)}")
        self.taus = tuple(taus)
        self.resamples, self.confidence, self.seed = resamples, confidence, seed
        # A row an image, all floats: a process without data takes part with an empty float tensor.
        for name in ("cosine", "centred", "consistent", "contrast", "contrast_modified"):
            self.add_state(name, default=[], dist_reduce_fx="cat")
        for name in ("flat", "flat_modified"):
            self.add_state(name, default=torch.tensor(0), dist_reduce_fx="sum")

    def update(
        self,
        maps: Tensor,
        maps_modified: Tensor,
        predictions: Tensor,
        predictions_modified: Tensor,
    ) -> None:
        """Maps [B,h,w] and predicted classes [B] of the images and of the modified images."""
        if maps.shape != maps_modified.shape:
            raise AibError(
                f"maps {shape(maps)} and maps_modified {shape(maps_modified)} must have one shape"
            )
        if predictions.shape != maps.shape[:1] or predictions_modified.shape != maps.shape[:1]:
            raise AibError(
                f"predictions {shape(predictions)} and {shape(predictions_modified)} must hold one "
                f"class index for each of the {len(maps)} maps"
            )
        before, after = min_max(maps), min_max(maps_modified)
        self.cosine.append(cosine(before, after))
        self.centred.append(centred_cosine(before, after))
        self.consistent.append((predictions == predictions_modified).float())
        self.contrast.append(before.contrast)
        self.contrast_modified.append(after.contrast)
        self.flat = self.flat + before.flat.sum()
        self.flat_modified = self.flat_modified + after.flat.sum()

    def compute(self) -> dict[str, Tensor]:
        """The figures named above."""
        contrast, contrast_modified = self._rows("contrast"), self._rows("contrast_modified")
        # Looked at here rather than in `update`, which would have to wait for the device.
        broken = int((~(contrast + contrast_modified).isfinite()).sum())
        if broken:
            raise AibError(f"the maps of {broken} images hold NaN or infinite values")
        consistent = self._rows("consistent")
        undefined = self._rows("centred").isnan().double()
        return {
            **self._ratios(),
            "centred_undefined": (consistent * undefined).sum(),
            "contrast": contrast.mean(),
            "contrast_modified": contrast_modified.mean(),
            "flat": self.flat,
            "flat_modified": self.flat_modified,
            "images": torch.tensor(len(contrast), device=contrast.device),
        }

    def _ratios(self) -> dict[str, Tensor]:
        raw, centred, consistent = (self._rows(n) for n in ("cosine", "centred", "consistent"))
        defined = consistent * ~centred.isnan()
        every = torch.ones_like(consistent)
        # Each figure is a sum over images divided by another: what it counts, among what.
        parts: dict[str, tuple[Tensor, Tensor]] = {}
        for tau in self.taus:
            parts[f"score_{tau:g}"] = (100 * consistent * (raw >= tau), consistent)
            parts[f"centred_{tau:g}"] = (100 * defined * (centred >= tau), defined)
        parts["centred_mean"] = (defined * centred.nan_to_num(), defined)
        parts["prediction_consistent"] = (100 * consistent, every)

        above = torch.stack([part[0] for part in parts.values()], dim=1)  # [N,F]
        below = torch.stack([part[1] for part in parts.values()], dim=1)  # [N,F]
        value = above.sum(dim=0) / below.sum(dim=0)  # [F]
        low, high = ratio_interval(
            above,
            below,
            resamples=self.resamples,
            confidence=self.confidence,
            seed=self.seed,
        )
        figures: dict[str, Tensor] = {}
        for i, name in enumerate(parts):
            figures |= {name: value[i], f"{name}_low": low[i], f"{name}_high": high[i]}
        return figures

    def _rows(self, name: str) -> Tensor:
        values = getattr(self, name)
        if isinstance(values, list) and not values:
            raise AibError("no maps were given: call update before compute")
        return dim_zero_cat(values).double()  # [N]
