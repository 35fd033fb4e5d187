"""Estimates with intervals, and the bootstrap over images."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

_CHUNK = 2**21  # weights held at once: 16 MiB
FEW = 10  # images: resamples of fewer are too much alike for an interval


@dataclass(frozen=True)
class Estimate:
    """A metric with its 95% interval. None where it is undefined or was not measured."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    undefined: int | None = None  # images that do not define it

    def format(
        self, digits: int = 1, *, times: float = 1.0, to: str = "-", sign: Literal["", "+"] = ""
    ) -> str:
        """'12.3 (11.0-13.5)', without the interval where there is none; a dash for None."""
        if self.value is None:
            return "-"
        numbers = (times * v for v in (self.value, self.low, self.high) if v is not None)
        value, *ends = (f"{number:{sign}.{digits}f}" for number in numbers)
        return f"{value} ({to.join(ends)})" if ends else value


UNDEFINED = Estimate()


def finite_or_none(value: Any) -> float | None:
    """A finite number; None for what is undefined."""
    return None if value is None or not math.isfinite(value) else float(value)


def wilson_interval(errors: int, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share, in percent. It stays within [0, 100]."""
    z = 1.959964  # the 97.5% quantile of the normal distribution
    p, zz = errors / count, z * z
    centre = (p + zz / (2 * count)) / (1 + zz / count)
    half = z * math.sqrt(p * (1 - p) / count + zz / (4 * count * count)) / (1 + zz / count)
    return 100 * max(0.0, centre - half), 100 * min(1.0, centre + half)


def ratio_interval(
    numerators: Tensor, denominators: Tensor, *, resamples: int = 1000, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Percentile bootstrap of sum(numerator) / sum(denominator) over images, for F metrics at once.

    Both are [N,F], one row per image; a mean over some images is such a ratio, with 0 / 0 for the
    images left out. Returns the lower and upper ends, float64 [F]; NaN where a metric is undefined.
    """
    both = torch.cat([numerators, denominators], dim=1)
    count = numerators.shape[1]
    return interval(both, lambda s: s[:, :count] / s[:, count:], resamples=resamples, seed=seed)


def interval(
    values: Tensor, statistic: Callable[[Tensor], Tensor], *, resamples: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Ends [G] of the central 95% for a statistic of sums over images: [resamples,F] to [...,G].

    `values` are [N,F]. Resamples depend only on N and the seed.
    """
    count = len(values)
    # Sampled on the CPU, so that the ends do not depend on the device.
    generator = torch.Generator().manual_seed(seed)
    device, values = values.device, values.double().cpu()
    chunk = max(1, _CHUNK // count)
    sums = []
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        picks = torch.randint(count, (rows, count), generator=generator)
        # How often each resample holds each image: its sums are then a matrix product.
        weights = torch.zeros(rows, count, dtype=torch.float64)
        weights.scatter_add_(1, picks, torch.ones_like(weights))
        sums.append(weights @ values)  # [rows,F]
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    low, high = statistic(torch.cat(sums)).nanquantile(ends, dim=0).to(device)
    return low, high


def mean_estimates(values: Tensor, *, seed: int = 0) -> list[Estimate]:
    """The mean over images of each column of [N,F], with its interval from `FEW` images on."""
    means = values.double().mean(0)
    if len(values) < FEW:
        return [Estimate(mean) for mean in means.tolist()]
    low, high = ratio_interval(values, torch.ones_like(values), seed=seed)
    return [Estimate(*row) for row in torch.stack([means, low, high], dim=1).tolist()]


def ratio_estimates(
    parts: Mapping[str, tuple[Tensor, Tensor]], *, seed: int = 0
) -> dict[str, Estimate]:
    """By name, sum(numerator) / sum(denominator) over images, [N] each, with its interval."""
    above, below = (torch.stack(side, dim=1).double() for side in zip(*parts.values(), strict=True))
    ends = [above.sum(dim=0) / below.sum(dim=0), *ratio_interval(above, below, seed=seed)]
    rows = torch.stack(ends, dim=1).tolist()
    return {
        name: Estimate(finite_or_none(value), finite_or_none(low), finite_or_none(high))
        for name, (value, low, high) in zip(parts, rows, strict=True)
    }


def defined_means(columns: Mapping[str, Tensor], *, seed: int = 0) -> dict[str, Estimate]:
    """By name, the mean over the images that define it, of [N] with NaN for the others."""
    parts = {name: (v.nan_to_num(), (~v.isnan()).double()) for name, v in columns.items()}
    return {
        name: replace(estimate, undefined=int(columns[name].isnan().sum()))
        for name, estimate in ratio_estimates(parts, seed=seed).items()
    }
