"""Estimates with intervals, the bootstrap over images, and metrics that come with both."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

from aib.errors import AibError
from aib.interpret.metrics.checks import shape

_CHUNK = 2**21  # weights held at once: 16 MiB
Flat = Mapping[str, Any]  # as in the file: NAME, NAME_low, NAME_high, ...


@dataclass(frozen=True)
class Estimate:
    """A metric with its 95% interval. None where it is undefined or was not measured."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    undefined: int | None = None  # images that do not define it

    @classmethod
    def read(cls, values: Flat, name: str) -> "Estimate":
        """From NAME, NAME_low, NAME_high and NAME_undefined."""
        value, low, high = (number_or_none(values.get(name + end)) for end in ("", "_low", "_high"))
        return cls(value, low, high, values.get(f"{name}_undefined"))

    def flat(self, name: str) -> dict[str, Any]:
        """The inverse of `read`."""
        ends = {"_low": self.low, "_high": self.high, "_undefined": self.undefined}
        return {name: self.value} | {name + e: v for e, v in ends.items() if v is not None}


def number_or_none(value: Any) -> float | None:
    """A finite number; None for what is undefined."""
    return None if value is None or not math.isfinite(value) else float(value)


def ratio_interval(
    numerators: Tensor,
    denominators: Tensor,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Percentile bootstrap of sum(numerator) / sum(denominator) over images, for F metrics at once.

    Both are [N,F], one row per image; a mean over some images is such a ratio, with 0 / 0 for the
    images left out. Returns the lower and upper ends, float64 [F]; NaN where a metric is undefined.
    """
    if numerators.ndim != 2 or numerators.shape != denominators.shape or len(numerators) == 0:
        raise AibError(
            f"numerators {shape(numerators)} and denominators {shape(denominators)} must both be "
            f"[N,F] with N >= 1"
        )
    if resamples < 1 or not 0 < confidence < 1:
        raise AibError(
            f"resamples must be at least 1 and confidence between 0 and 1, "
            f"not {resamples} and {confidence}"
        )
    count = len(numerators)
    # Sampled on the CPU, so that the ends do not depend on the device.
    generator = torch.Generator().manual_seed(seed)
    above, below = numerators.double().cpu(), denominators.double().cpu()
    chunk = max(1, _CHUNK // count)
    ratios = []
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        picks = torch.randint(count, (rows, count), generator=generator)
        # How often each resample holds each image: its sums are then a matrix product.
        weights = torch.zeros(rows, count, dtype=torch.float64)
        weights.scatter_add_(1, picks, torch.ones_like(weights))
        ratios.append((weights @ above) / (weights @ below))  # [rows,F]
    tail = (1 - confidence) / 2
    ends = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    low, high = torch.cat(ratios).nanquantile(ends, dim=0)
    return low.to(numerators.device), high.to(numerators.device)


class BootstrapMetric(Metric):
    """Values per image in list states; ratios of their sums with bootstrap intervals."""

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def __init__(
        self, *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.resamples, self.confidence, self.seed = resamples, confidence, seed

    def per_image(self, name: str) -> Tensor:
        """All values of one list state, float64 [N]."""
        values = getattr(self, name)
        if isinstance(values, list) and not values:
            raise AibError("no maps were given: call update before compute")
        return dim_zero_cat(values).double()

    def ratios(self, parts: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        """NAME, NAME_low and NAME_high of each sum(numerator) / sum(denominator), [N] each."""
        above = torch.stack([part[0] for part in parts.values()], dim=1)  # [N,F]
        below = torch.stack([part[1] for part in parts.values()], dim=1)  # [N,F]
        value = above.sum(dim=0) / below.sum(dim=0)  # [F]
        low, high = ratio_interval(
            above, below, resamples=self.resamples, confidence=self.confidence, seed=self.seed
        )
        found: dict[str, Tensor] = {}
        for i, name in enumerate(parts):
            found |= {name: value[i], f"{name}_low": low[i], f"{name}_high": high[i]}
        return found


def check_finite(broken: int) -> None:
    """Raise an error for maps with NaN or infinite values. Called in `compute`: in `update` it
    would synchronise with the device at every batch."""
    if broken:
        raise AibError(f"the maps of {broken} images hold NaN or infinite values")
