"""Watching a training without waiting for it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from aib.errors import AibError

TERMS = ("total", "nll", "kl", "quantization", "commitment", "auxiliary", "opening")


def everywhere(tensor: Tensor, how: Any) -> Tensor:
    """Reduce over all processes; with one, nothing happens."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(tensor, how)
    return tensor


class Watch:
    """Sums of the figures since the last look, and the first step at which one was not finite.

    Both stay on the device; `read` is the only place where the host waits for it.
    """

    NAMES = (*TERMS, "gradient")

    def __init__(self, device: torch.device):
        self.sums = torch.zeros(len(TERMS) + 1, device=device)
        self.first_bad = torch.full((), torch.iinfo(torch.int64).max, device=device)
        self.bad = torch.zeros(len(self.NAMES), dtype=torch.bool, device=device)

    def add(self, figures: Tensor, gradient_norm: Tensor, step: int) -> None:
        """Take in one step."""
        self.sums += figures
        bad = ~torch.cat([figures[:-1], gradient_norm.reshape(1)]).isfinite()
        first = bad.any() & (self.first_bad > step)
        self.bad |= bad & first
        self.first_bad = torch.where(first, step, self.first_bad)

    def read(self, steps: int, images: int) -> dict[str, float]:
        """Means since the last look, over all processes; then start again."""
        sums = everywhere(self.sums.clone(), dist.ReduceOp.SUM)
        world = dist.get_world_size() if dist.is_initialized() else 1
        values = sums.tolist()
        self.sums.zero_()
        row = {name: values[i] / (steps * world) for i, name in enumerate(TERMS)}
        return row | {"error": 100 * values[-1] / images}

    def check(self) -> None:
        """Stop if any term has not been finite since the last look."""
        first = int(everywhere(self.first_bad.clone(), dist.ReduceOp.MIN))
        if first == torch.iinfo(torch.int64).max:
            return
        bad = everywhere(self.bad.to(torch.int64), dist.ReduceOp.MAX).tolist()
        broken = [name for name, flag in zip(self.NAMES, bad, strict=True) if flag]
        raise NonFiniteError(first, broken)


class NonFiniteError(AibError):
    """The loss or its gradient stopped being a number."""

    def __init__(self, step: int, terms: list[str]):
        terms = [t for t in terms if t != "total"] or terms  # the sum breaks with any of its parts
        super().__init__(
            f"not finite at step {step}: {', '.join(terms)}; nothing after it was saved. A smaller "
            "--lr, --clip 2 or --beta-warmup may help"
        )
        self.step = step
