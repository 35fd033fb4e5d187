"""Base of the metrics with intervals. Only this module imports torchmetrics: it takes seconds."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

from aib.errors import AibError
from aib.evaluation.intervals import ratio_interval
from aib.interpret.metrics.checks import check_finite, count_broken


class BootstrapMetric(Metric):
    """Values per image in list states; ratios of their sums with bootstrap intervals."""

    full_state_update = False
    broken: Tensor

    def __init__(self, *, resamples: int = 1000, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.resamples, self.seed = resamples, seed
        self.add_state("broken", default=torch.tensor(0), dist_reduce_fx="sum")

    def count_broken(self, maps: Tensor) -> None:
        """Count maps [B,...] with NaN or infinite values; `per_image` raises an error for them.

        Not here: that would synchronise with the device at every batch.
        """
        self.broken = self.broken + count_broken(maps)

    def per_image(self, name: str) -> Tensor:
        """All values of one list state, float64 [N]."""
        check_finite(int(self.broken))
        values = getattr(self, name)
        if isinstance(values, list) and not values:
            raise AibError("no maps were given: call update before compute")
        return dim_zero_cat(values).double()

    def ratios(self, parts: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        """NAME, NAME_low and NAME_high of each sum(numerator) / sum(denominator), [N] each."""
        above = torch.stack([part[0] for part in parts.values()], dim=1)  # [N,F]
        below = torch.stack([part[1] for part in parts.values()], dim=1)  # [N,F]
        value = above.sum(dim=0) / below.sum(dim=0)  # [F]
        low, high = ratio_interval(above, below, resamples=self.resamples, seed=self.seed)
        found: dict[str, Tensor] = {}
        for i, name in enumerate(parts):
            found |= {name: value[i], f"{name}_low": low[i], f"{name}_high": high[i]}
        return found
