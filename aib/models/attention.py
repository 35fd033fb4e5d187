"""p(a|x): one score per position, with its uncertainty; and how it modulates the features."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from aib.config.validation import Modulation
from aib.errors import AibError
from aib.models.gaussian import positive_sigma, reparameterise
from aib.models.quantize import AnchorQuantizer
from aib.models.types import Attention, Sampling, noise_or_sample, widen


class AttentionParameters(NamedTuple):
    """What an attention module computes from the features."""

    mu: Tensor  # [B,h,w]
    sigma: Tensor | None = None  # [B,h,w]; None: a deterministic map
    aux_logits: Tensor | None = None  # [B,C], from a second head that trains the map


def check_parameters(found: object, f: Tensor) -> AttentionParameters:
    """What an attention module gave for features f [B,c,h,w], or an error that names its form.

    The module may be a user's own; broadcasting would mix images up unnoticed.
    """
    wrong = f"a {type(found).__name__}"
    if isinstance(found, AttentionParameters):
        expected = [f.shape[0], *f.shape[2:]]
        named = {"mu": found.mu} if found.sigma is None else {"mu": found.mu, "sigma": found.sigma}
        shapes = {name: list(getattr(part, "shape", ())) for name, part in named.items()}
        other = [f"{name} {shape}" for name, shape in shapes.items() if shape != expected]
        if not other:
            return found
        wrong = other[0]
    raise AibError(
        "the attention must give aib.models.attention.AttentionParameters(mu, sigma) of shape "
        f"[B,h,w] = [{f.shape[0]}, {f.shape[2]}, {f.shape[3]}], not {wrong}"
    )


class ClassMaps(nn.Module):
    """f -> a score computed from one map per class, and the logits of a second head.

    The second head (a 1 x 1 convolution averaged over positions) has a cross-entropy loss, so
    that the maps which the score is computed from have to hold evidence for the classes.
    """

    def __init__(self, class_maps: nn.Module, to_one: nn.Module, num_classes: int):
        super().__init__()
        self.class_maps = class_maps  # f -> [B,C,h,w]
        self.to_one = to_one  # [B,C,h,w] -> [B,1,h,w]
        self.to_logits = nn.Conv2d(num_classes, num_classes, 1, bias=False)

    def forward(self, f: Tensor) -> tuple[Tensor, Tensor]:
        maps = self.class_maps(f)
        return self.to_one(maps), self.to_logits(maps).mean((2, 3))  # [B,1,h,w], [B,C]


class SpatialAttention(nn.Module):
    """f -> mu_a = sigmoid(trunk(f)), and sigma_a from mu_a by one small convolution.

    With `ClassMaps` as its trunk it is guided: nothing in the paper's loss makes the map follow
    the evidence for a class.
    """

    def __init__(self, trunk: nn.Module, sigma_kernel: int | None = 1):
        super().__init__()
        self.trunk = trunk  # f -> [B,1,h,w], or ClassMaps
        self.to_sigma: nn.Conv2d | None = None  # without it the map has no noise
        if sigma_kernel is not None:
            self.to_sigma = nn.Conv2d(1, 1, sigma_kernel, padding=sigma_kernel // 2)

    def forward(self, f: Tensor) -> AttentionParameters:
        guided = isinstance(self.trunk, ClassMaps)
        score, aux_logits = self.trunk(f) if guided else (self.trunk(f), None)
        mu = widen(score).sigmoid()  # [B,1,h,w]
        if self.to_sigma is None:
            return AttentionParameters(mu.squeeze(1), None, aux_logits)
        sigma = positive_sigma(self.to_sigma(mu.to(self.to_sigma.weight.dtype)))  # [B,1,h,w]
        return AttentionParameters(mu.squeeze(1), sigma.squeeze(1), aux_logits)


def sample_attention(
    mu: Tensor,
    sigma: Tensor | None,
    quantizer: AnchorQuantizer | None,
    sampling: Sampling,
    attention_map: Tensor | None = None,
) -> Attention:
    """Sample a ~ N(mu, sigma) and quantise it to the nearest anchors; mu and sigma are [B,h,w].

    A map without sigma, and a deterministic pass, have one sample: mu itself. `attention_map`
    [B,h,w] replaces a_q.
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
    return attention if attention_map is None else attention.replaced_by(attention_map)


def modulate(f: Tensor, a: Tensor, how: Modulation) -> Tensor:
    """Features [B,c,h,w] and S maps [S,B,h,w] to S modulated copies, [S*B,c,h,w].

    gate: f * a, where a low value closes a position. residual: f * (1 + a), where it does not.
    """
    gain = (a if how == "gate" else 1 + a).to(f.dtype).unsqueeze(2)  # [S,B,1,h,w]
    return torch.flatten(f.unsqueeze(0) * gain, 0, 1)
