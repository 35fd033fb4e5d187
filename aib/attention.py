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
    aux_logits: Tensor | None = None  # [B,C], from ABN's class branch


class SpatialAttention(nn.Module):
    """f -> mu_a = sigmoid(trunk(f)), and sigma_a from mu_a by one small convolution.

    `noise` is added to sigma_a, so that scores below it carry little. Without it (the paper) a
    faint map is as good as a strong one: the layers behind it scale it up again.
    """

    def __init__(self, trunk: nn.Module, sigma_kernel: int = 1, noise: float = 0.0):
        super().__init__()
        self.noise = noise
        self.trunk = trunk  # [B,c,h,w] -> [B,1,h,w]
        self.to_sigma = nn.Conv2d(1, 1, sigma_kernel, padding=sigma_kernel // 2)

    def forward(self, f: Tensor) -> AttentionParameters:
        mu = widen(self.trunk(f)).sigmoid()  # [B,1,h,w]
        sigma = positive_sigma(self.to_sigma(mu.to(self.to_sigma.weight.dtype)))  # [B,1,h,w]
        if self.noise:
            sigma = sigma + self.noise
        return AttentionParameters(mu.squeeze(1), sigma.squeeze(1))


def modulate(f: Tensor, a: Tensor, how: Modulation) -> Tensor:
    """Features [B,c,h,w] and S maps [S,B,h,w] to S modulated copies, [S*B,c,h,w].

    gate: f * a, where a low value shuts a place off. residual: f * (1 + a), where it does not.
    """
    gain = (a if how == "gate" else 1 + a).to(f.dtype).unsqueeze(2)  # [S,B,1,h,w]
    return torch.flatten(f.unsqueeze(0) * gain, 0, 1)
