"""Quantise attention scores to a few learnable levels (paper, section 3.3)."""

from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from aib.config.validation import NumAnchors, check
from aib.models.gaussian import widen


class Quantized(NamedTuple):
    """The quantised scores, and the two losses that pull anchors and scores together."""

    a_q: Tensor  # like a; its gradient goes to a, unaltered
    indices: Tensor  # like a, int64: which anchor
    quantization: Tensor  # ||sg[a] - v||^2, mean over positions: moves the anchors only
    commitment: Tensor  # ||a - sg[v]||^2, mean over positions: moves the attention only


class AnchorQuantizer(nn.Module):
    """Q anchors on the real line; a score takes the value of the nearest, in a tie the lower."""

    anchors: nn.Parameter  # [Q]
    usage: Tensor  # [Q], int64

    def __init__(self, num_anchors: int = 20):
        super().__init__()
        check("num_anchors", num_anchors, NumAnchors)
        # On the CPU first: on "meta" it would import sympy, half a second of each start.
        levels = torch.linspace(0, 1, num_anchors, device="cpu")
        self.anchors = nn.Parameter(levels.to(torch.empty(0).device))
        # How often each anchor was used in training since the last reset, over all processes.
        self.register_buffer("usage", torch.zeros(num_anchors, dtype=torch.int64))

    def forward(self, a: Tensor) -> Quantized:
        a = widen(a)  # bf16 has 3 digits; neighbouring anchors may differ in the third
        indices = self.nearest(a)
        nearest = widen(self.anchors[indices])  # carries the anchors' gradient
        if self.training:
            self._count(indices)
        # Straight through: the value is the anchor's, exactly, and d a_q / d a = 1.
        a_q = nearest.detach() + (a - a.detach())
        return Quantized(
            a_q=a_q,
            indices=indices,
            quantization=F.mse_loss(nearest, a.detach()),
            commitment=F.mse_loss(a, nearest.detach()),
        )

    @torch.no_grad()
    def nearest(self, a: Tensor) -> Tensor:
        """Index of the nearest anchor: a search among the anchors' Q - 1 midpoints.

        Anchors move in training, so they are sorted each time.
        """
        ordered, order = widen(self.anchors.detach()).sort(stable=True)
        midpoints = (ordered[1:] + ordered[:-1]) / 2
        # a score on a midpoint takes the lower anchor
        return order[torch.bucketize(a.to(midpoints.dtype), midpoints)]

    @torch.no_grad()
    def snap(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """The nearest anchors' values, and their levels: 0..Q-1 in rising order of the values."""
        indices = self.nearest(a)
        return self.anchors.detach()[indices], self.anchors.argsort(stable=True).argsort()[indices]

    @torch.no_grad()
    def _count(self, indices: Tensor) -> None:
        flat = indices.flatten()
        # scatter_add and not bincount: bincount synchronises, to get its output size.
        counts = torch.zeros_like(self.usage).scatter_add_(0, flat, torch.ones_like(flat))
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(counts)  # every process sees the usage of the whole batch
        self.usage.add_(counts)  # += would assign: torch.export hooks that, and compile then fails

    @torch.no_grad()
    def perplexity(self) -> Tensor:
        """exp(entropy) of the usage: the effective number of anchors in use, from 1 to Q."""
        share = self.usage / self.usage.sum().clamp(min=1)
        return torch.special.entr(share).sum().exp()

    @torch.no_grad()
    def reset_usage(self) -> None:
        """Set the usage counts to zero, for example at the beginning of an epoch."""
        self.usage.zero_()
