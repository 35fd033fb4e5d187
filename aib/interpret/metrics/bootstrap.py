"""Intervals: how far a figure could have moved with other images of the same kind."""

import torch
from torch import Tensor

from aib.errors import AibError
from aib.interpret.metrics.checks import shape

_CHUNK = 2**21  # weights held at once: 16 MiB


def ratio_interval(
    numerators: Tensor,
    denominators: Tensor,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Percentile bootstrap of sum(numerator) / sum(denominator) over images, for F figures at once.

    Both are [N,F], a row an image; a mean over some images is such a ratio, with 0 / 0 for the
    images left out. Returns the two ends, float64 [F]; NaN where a figure is undefined.
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
    # Drawn on the CPU, so that the ends do not depend on the device.
    generator = torch.Generator().manual_seed(seed)
    above, below = numerators.double().cpu(), denominators.double().cpu()
    chunk = max(1, _CHUNK // count)
    ratios = []
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        picks = torch.randint(count, (rows, count), generator=generator)
        # How often a resample holds each image; its sums are then a matrix product.
        weights = torch.zeros(rows, count, dtype=torch.float64)
        weights.scatter_add_(1, picks, torch.ones_like(weights))
        ratios.append((weights @ above) / (weights @ below))  # [rows,F]
    tail = (1 - confidence) / 2
    ends = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    low, high = torch.cat(ratios).nanquantile(ends, dim=0)
    return low.to(numerators.device), high.to(numerators.device)
