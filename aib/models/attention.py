"""p(a|x): one score per position, with its uncertainty; and how it modulates the features."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from aib.config.validation import Modulation
from aib.errors import AibError
from aib.models.gaussian import noise_or_sample, positive_sigma, reparameterise, widen
from aib.models.quantize import AnchorQuantizer
from aib.models.types import Attention, Sampling


class AttentionParameters(NamedTuple):
    """What an attention module computes from the features."""

    mu: Tensor  # [B,h,w]
    sigma: Tensor | None = None  # [B,h,w]; None: a deterministic map
    aux_logits: Tensor | None = None  # [B,C], from a second head that trains the map


def check_parameters(found: AttentionParameters, f: Tensor) -> AttentionParameters:
    """Check what a user's attention module gives: broadcasting would mix images up unnoticed."""
    shape = f.shape[0], *f.shape[2:]
    if not isinstance(found, AttentionParameters) or any(
        part is not None and tuple(part.shape) != shape for part in (found.mu, found.sigma)
    ):
        raise AibError(f"the attention must return AttentionParameters of shape {list(shape)}")
    return found


class SpatialAttention(nn.Module):
    """f -> mu_a = sigmoid(trunk(f)), and sigma_a from mu_a by one small convolution."""

    def __init__(self, trunk: nn.Module, sigma_kernel: int | None = 1):
        super().__init__()
        self.trunk = trunk  # f -> [B,1,h,w]
        self.to_sigma: nn.Conv2d | None = None  # without it the map has no noise
        if sigma_kernel is not None:
            self.to_sigma = nn.Conv2d(1, 1, sigma_kernel, padding=sigma_kernel // 2)

    def forward(self, f: Tensor) -> AttentionParameters:
        mu = widen(self.trunk(f)).sigmoid()  # [B,1,h,w]
        if self.to_sigma is None:
            return AttentionParameters(mu.squeeze(1))
        sigma = positive_sigma(self.to_sigma(mu.to(self.to_sigma.weight.dtype)))  # [B,1,h,w]
        return AttentionParameters(mu.squeeze(1), sigma.squeeze(1))


def sample_attention(
    mu: Tensor,
    sigma: Tensor | None,
    quantizer: AnchorQuantizer | None,
    sampling: Sampling,
    attention_map: Tensor | None = None,
) -> Attention:
    """Sample a ~ N(mu, sigma) [B,h,w], or take mu, and quantise it to the nearest anchors.

    `attention_map` [B,h,w] replaces a_q.
    """
    if sampling.deterministic or sigma is None:
        a = mu.unsqueeze(0)  # [1,B,h,w]
    else:
        eps = noise_or_sample(sampling.noise.a, (sampling.s, *mu.shape), mu, "a")
        a = reparameterise(mu, sigma, eps)  # [S,B,h,w]
    if quantizer is None:
        attention = Attention(mu, sigma, a, a, maps=(mu,))
    else:
        a_q, indices, quantization, commitment = quantizer(a)
        attention = Attention(mu, sigma, a, a_q, indices, quantization, commitment, (mu,))
    if attention_map is None:
        return attention
    if attention_map.shape != mu.shape:
        raise AibError(f"attention_map must be {list(mu.shape)}, not {list(attention_map.shape)}")
    return replace(attention, a_q=attention_map.to(a).expand_as(a), indices=None)


def modulate(f: Tensor, a: Tensor, how: Modulation) -> Tensor:
    """Features [B,c,h,w] and S maps [S,B,h,w] to S modulated copies, [S*B,c,h,w].

    gate: f * a, where a low value closes a position. residual: f * (1 + a), where it does not.
    """
    gain = (a if how == "gate" else 1 + a).to(f.dtype).unsqueeze(2)  # [S,B,1,h,w]
    return torch.flatten(f.unsqueeze(0) * gain, 0, 1)
