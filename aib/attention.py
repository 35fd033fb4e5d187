"""p(a|x): one number per place, with its uncertainty; and how it modulates the features."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from aib.gaussian import positive_sigma
from aib.profiles import Modulation
from aib.types import widen


class AttentionParameters(NamedTuple):
    """What an attention module makes of the features."""

    mu: Tensor  # [B,h,w]
    sigma: Tensor | None = None  # [B,h,w]; None: a deterministic map
    aux_logits: Tensor | None = None  # [B,C], from a second head that teaches the map


class SpatialAttention(nn.Module):
    """f -> mu_a = sigmoid(trunk(f)), and sigma_a from mu_a by one small convolution.

    `noise` is added to sigma_a, so that scores below it carry little. Without it (the paper) a
    faint map is as good as a strong one: the layers behind it scale it up again.
    """

    def __init__(self, trunk: nn.Module, sigma_kernel: int = 1, noise: float = 0.0):
        super().__init__()
        self.noise = noise
        self.trunk = trunk  # f -> scores [B,1,h,w]
        self.to_sigma = nn.Conv2d(1, 1, sigma_kernel, padding=sigma_kernel // 2)

    def forward(self, f: Tensor) -> AttentionParameters:
        return self.spread(self.trunk(f))

    def spread(self, score: Tensor) -> AttentionParameters:
        """mu_a and sigma_a of a score [B,1,h,w]."""
        mu = widen(score).sigmoid()  # [B,1,h,w]
        sigma = positive_sigma(self.to_sigma(mu.to(self.to_sigma.weight.dtype)))  # [B,1,h,w]
        if self.noise:
            sigma = sigma + self.noise
        return AttentionParameters(mu.squeeze(1), sigma.squeeze(1))


class GuidedAttention(SpatialAttention):
    """The same, made of one map a class that a second head teaches, as in ABN; not the paper's.

    The head gets a cross-entropy loss of its own, so the maps have to hold evidence for classes.
    """

    def __init__(
        self,
        class_maps: nn.Module,
        to_one: nn.Module,
        num_classes: int,
        sigma_kernel: int = 1,
        noise: float = 0.0,
    ):
        super().__init__(class_maps, sigma_kernel, noise)
        self.to_one = to_one  # [B,C,h,w] -> [B,1,h,w]
        self.to_logits = nn.Conv2d(num_classes, num_classes, 1, bias=False)

    def forward(self, f: Tensor) -> AttentionParameters:
        maps = self.trunk(f)  # [B,C,h,w]
        logits = self.to_logits(maps).mean((2, 3))
        return self.spread(self.to_one(maps))._replace(aux_logits=logits)


def modulate(f: Tensor, a: Tensor, how: Modulation) -> Tensor:
    """Features [B,c,h,w] and S maps [S,B,h,w] to S modulated copies, [S*B,c,h,w].

    gate: f * a, where a low value shuts a place off. residual: f * (1 + a), where it does not.
    """
    gain = (a if how == "gate" else 1 + a).to(f.dtype).unsqueeze(2)  # [S,B,1,h,w]
    return torch.flatten(f.unsqueeze(0) * gain, 0, 1)
