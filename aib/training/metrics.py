"""Metrics of training steps, summed on the device without waiting for it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from aib.errors import AibError
from aib.models.types import LossTerms

MEANS = (*LossTerms.__dataclass_fields__, "mask_bits", "closed_share")  # of each step, as logged
NEVER = torch.iinfo(torch.int64).max


class MetricSums:
    """Sums of the metrics since they were last read, and the first step with a non-finite one."""

    NAMES = (*MEANS, "gradient")

    def __init__(self, device: torch.device):
        self.sums = torch.zeros(len(MEANS) + 1, device=device)
        self.first_bad = torch.full((), NEVER, device=device)
        self.bad = torch.zeros(len(self.NAMES), dtype=torch.bool, device=device)

    def add(self, metrics: Tensor, gradient_norm: Tensor, step: int) -> None:
        """Add one step: [means ..., wrong predictions] and the gradient's norm."""
        self.sums += metrics
        bad = ~torch.cat([metrics[:-1], gradient_norm.reshape(1)]).isfinite()
        first = bad.any() & (self.first_bad > step)
        self.bad |= bad & first
        self.first_bad = torch.where(first, step, self.first_bad)

    def pop_means(self, steps: int, images: int) -> dict[str, float]:
        """Means over these steps and all processes; reset the sums. Waits for the device."""
        values = all_reduce(self.sums.clone(), dist.ReduceOp.SUM).tolist()
        self.sums.zero_()
        world = dist.get_world_size() if dist.is_initialized() else 1
        row = {name: values[i] / (steps * world) for i, name in enumerate(MEANS)}
        return row | {"error": 100 * values[-1] / images}

    def check_finite(self) -> None:
        """Raise if any term of any step was not finite."""
        first = int(all_reduce(self.first_bad.clone(), dist.ReduceOp.MIN))
        if first == NEVER:
            return
        bad = all_reduce(self.bad.to(torch.int64), dist.ReduceOp.MAX).tolist()
        raise not_finite(first, [n for n, flag in zip(self.NAMES, bad, strict=True) if flag])


def average_over_ranks(value: Tensor) -> Tensor:
    """The mean of a value over all processes, without a gradient."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    return all_reduce(value.clone(), dist.ReduceOp.SUM) / dist.get_world_size()


def all_reduce(tensor: Tensor, operation: Any) -> Tensor:
    """Reduce in place over all processes, if there are several."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(tensor, operation)
    return tensor


def not_finite(step: int, names: list[str]) -> AibError:
    """The error for a term of the loss, its gradient or a weight that is NaN or infinite."""
    names = [n for n in names if n != "total"] or names  # it is the sum of the others
    return AibError(
        f"not finite at step {step}: {', '.join(names)}; nothing after it was saved. A smaller "
        "--lr, --clip 2 or --beta-warmup may help"
    )
