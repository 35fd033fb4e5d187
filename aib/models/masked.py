"""Masked models: the map is the only way in which pixels reach the decision.

    x -> proposal mu -> mask m -> masked image m x + (1 - m) noise -> classifier
      -> logits

Where m = 0 the classifier receives noise and nothing of x: given mask and noise, such a pixel
cannot change the logits at all. What remains is the map itself, which has seen the whole image;
`interpret/` measures that channel.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aib.errors import AibError
from aib.models.backbones.propose import FirstPass
from aib.models.classifier import Classifier
from aib.models.explanation import Explanation
from aib.models.gaussian import nats_to_bits, noise_or_sample, widen
from aib.models.latent import LinearHead, VariationalHead
from aib.models.types import Attention, Given, Output, Sampling

STRETCH = 1.1  # of the enlarged map, around 1/2
MAX_BITS = 8.0  # per pixel and channel: what a byte holds
CLOSED = 0.02  # of an image: a mask that keeps less is nearly closed


class Masked(Classifier):
    """proposal and mask; then body and head classify what the mask leaves.

    `body` maps images to embeddings [B,d]. `propose` maps images to `AttentionParameters` without
    noise; with `first_pass` it maps the features of a first pass of `body` instead ("twice").
    """

    takes_map = takes_mask = True
    is_random = True  # closed pixels are noise, in evaluation too

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        """The forward pass; `Classifier.forward` has checked the input and the samples."""
        if given.mask is None:
            attention = self.attend(x, given.attention_map)
            m = mask_of(attention.mu, x.shape[2:])  # [B,H,W]
        else:
            attention, m = None, check_given("mask", given.mask, x, x.shape[2:])
        return self.classify(x, m, sampling, attention)

    def classify(
        self, x: Tensor, m: Tensor, sampling: Sampling, attention: Attention | None = None
    ) -> Output:
        """Classify what the masks [B,H,W] leave of the images."""
        m = m.expand(sampling.s, *m.shape)  # [S,B,H,W]
        seen = replace_closed(x, m, self.pixel_noise(x, sampling))  # [S,B,3,H,W]
        e = self.body(seen.flatten(0, 1))  # [S*B,d]
        samples, eps_z = (sampling.s, sampling.m), sampling.noise.z
        latent, logits = self.head(e, samples, sampling.deterministic, eps_z)  # [S,M,B,C]
        return Output(logits, attention, latent, mask=m)

    def attend(self, x: Tensor, attention_map: Tensor | None) -> Attention:
        """The proposed map; where a map is given, none is proposed."""
        if attention_map is not None:
            size = attention_map.shape[-2:]
            return Attention.fixed(check_given("attention_map", attention_map, x, size))
        source = x if self.first_pass is None else self.first_pass(self.body, x)
        return Attention.fixed(self.propose(source).mu)

    def pixel_noise(self, x: Tensor, sampling: Sampling) -> Tensor:
        """eps ~ N(0, noise_std^2) in normalised pixels, [S,B,3,H,W]: new in every pass.

        Deterministic passes share one field, so that an explanation does not depend on the batch.
        """
        shape = (sampling.s, *x.shape)
        if sampling.deterministic and sampling.noise.x is None:
            return self.noise_std * fixed_noise(*x.shape[2:]).to(x).expand(shape)
        eps = noise_or_sample(sampling.noise.x, shape, like=x, name="x")
        return self.noise_std * eps.to(x.dtype)

    def __init__(
        self,
        body: nn.Module,
        head: VariationalHead | LinearHead,
        propose: nn.Module,
        num_classes: int,
        *,
        first_pass: FirstPass | None = None,
        noise_std: float = 1.0,
        **options: Any,  # of Classifier
    ):
        super().__init__(num_classes, **options)
        self.noise_std = noise_std
        if isinstance(head, LinearHead):
            self.eval_samples = (self.eval_samples[0], 1)  # there is no latent to sample
        self.body, self.head = body, head
        self.propose, self.first_pass = propose, first_pass

    def explanation_of(self, out: Output, x: Tensor, samples: str = "deterministic") -> Explanation:
        """The explanation with the mask of a deterministic pass, and what it lets through."""
        found = super().explanation_of(out, x, samples)
        if found.map is None:
            return found
        m = mask_of(found.map, x.shape[2:])  # [B,H,W]
        seen = replace_closed(x, m[None], self.pixel_noise(x, Sampling(deterministic=True)))[0]
        bits = information_bits(x, m, self.noise_std)
        return replace(found, mask=m, seen=seen, bits=bits)

    @torch.no_grad()
    def pixel_bits(self, x: Tensor, mask: Tensor) -> Tensor:
        """[S,B,H,W], bits of each pixel that the mask lets through."""
        return information_bits(widen(x), widen(mask), self.noise_std)

    def mask_bits(self, x: Tensor, mask: Tensor) -> Tensor:
        """[B], bits of each image that its mask lets through, averaged over the samples."""
        return self.pixel_bits(x, mask).sum((2, 3)).mean(0)


def mask_of(maps: Tensor, size: torch.Size) -> Tensor:
    """m = clip(1.1 upsample(a) - 0.05, 0, 1): maps [B,h,w] to masks [B,H,W].

    The stretch gives exact zeros and ones. Without it nothing moves m from 0.1 to 0, and an average
    over an object's pixels restores what 0.1 lets through.
    """
    large = F.interpolate(maps[:, None], size=size, mode="bilinear").squeeze(1)
    return (STRETCH * large - (STRETCH - 1) / 2).clamp(0, 1)


def replace_closed(x: Tensor, m: Tensor, noise: Tensor) -> Tensor:
    """x~ = m x + (1 - m) noise, and exactly the noise where m = 0: [S,B,3,H,W].

    0 times infinity is not a number, so the sum alone would let an infinite pixel through.
    """
    m = m.unsqueeze(2).to(x.dtype)  # [S,B,1,H,W]
    return torch.where(m == 0, noise, m * x + (1 - m) * noise)


@lru_cache(maxsize=8)
def fixed_noise(height: int, width: int) -> Tensor:
    """The noise of deterministic passes, [3,H,W]: the same for every image and device."""
    values = np.random.Generator(np.random.PCG64(0)).standard_normal((3, height, width))
    return torch.from_numpy(values)


def information_bits(x: Tensor, m: Tensor, noise_std: float) -> Tensor:
    """An upper bound on the bits that each pixel carries given the map, [...,B,H,W] as m.

    A channel of the masked image is N(m x, s^2 (1 - m)^2); the noise alone is N(0, s^2). Hence

        KL = (m^2 x^2 / s^2 + (1 - m)^2 - 1) / 2 - ln(1 - m)   nats,

    capped at 8 bits per channel, and 8 bits where m = 1. What the map's shape says about the image
    is not counted.
    """
    m = m.unsqueeze(-3)  # [...,B,1,H,W]
    kept = (1 - m).clamp_min(torch.finfo(m.dtype).tiny)
    nats = ((m * x / noise_std).square() + kept.square() - 1) / 2 - kept.log()
    nats = torch.where(m == 0, 0.0, nats)  # 0 times infinity is not a number
    return nats_to_bits(nats).clamp(0.0, MAX_BITS).sum(-3)


def check_given(name: str, values: Tensor, x: Tensor, size: torch.Size) -> Tensor:
    """A given map or mask for images x: one of this size for each, with values in [0, 1]."""
    if tuple(values.shape) != (len(x), *size):
        shape = f"[{len(x)}, {', '.join(map(str, size))}]"
        raise AibError(f"the {name} for these images must be {shape}, not {list(values.shape)}")
    if not torch.compiler.is_compiling() and not bool(((values >= 0) & (values <= 1)).all()):
        raise AibError(f"the values of {name} must lie in [0, 1]")
    return values.to(x)
