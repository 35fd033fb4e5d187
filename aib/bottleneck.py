"""Attention with an information bottleneck: the whole method, top to bottom. Read this first.

    x -> features f -> attention a ~ N(mu_a, sigma_a) -> nearest anchor a_q -> modulate f
      -> latent z ~ N(mu_z, sigma_z) -> decoder -> logits

The attention decides which places of f reach the latent; the loss charges the latent for every
nat it carries (`loss.py`). So a place is only let through if it pays for itself in likelihood.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from aib.attention import SpatialAttention, modulate
from aib.classifier import Classifier, evaluating
from aib.errors import AibError
from aib.gaussian import draw
from aib.latent import LinearHead, VariationalHead, expect, mlp_decoder
from aib.preprocessing import Preprocessing
from aib.profiles import Modulation, get_modulation, get_profile
from aib.quantize import AnchorQuantizer
from aib.types import Attention, Noise, Output, ProfileName, standard_noise


class AIB(Classifier):
    """stem, attention, quantiser, tail, head. Any of the three in the middle may be left out.

    Without a quantiser it is the paper's `-aib`; without attention it is DVIB; with a linear head
    as well it is the plain network. From your own two modules:

        model = aib.AIB(stem, tail, num_classes=10, image_size=32, quantizer=20)

    `stem` maps images to features [B,c,h,w], `tail` maps those to embeddings [B,d].
    """

    def __init__(
        self,
        stem: nn.Module,
        tail: nn.Module,
        num_classes: int,
        *,
        image_size: int = 32,
        attention: nn.Module | Literal["conv"] | None = "conv",
        quantizer: AnchorQuantizer | int | None = None,
        head: VariationalHead | LinearHead | None = None,
        latent_dim: int = 256,
        modulation: Modulation | None = None,
        profile: ProfileName = "paper",
        min_size: int = 1,
        preprocessing: Preprocessing | None = None,
    ):
        preprocessing = preprocessing or Preprocessing(image_size=image_size)
        super().__init__(
            num_classes, profile=profile, min_size=min_size, preprocessing=preprocessing
        )
        self.modulation = get_modulation(modulation, profile)
        _check_parts(attention, quantizer, head, min_size)
        own_parts = isinstance(attention, nn.Module) or head is not None
        self.recipe = {
            "kind": "custom" if own_parts else "composed",
            "num_classes": num_classes,
            "image_size": image_size,
            "attention": None if isinstance(attention, nn.Module) else attention,
            "quantizer": getattr(quantizer, "num_anchors", quantizer),
            "latent_dim": latent_dim,
            "modulation": self.modulation,
            "profile": profile,
            "min_size": min_size,
        }
        channels, embedding_dim = 0, 0
        if attention == "conv" or head is None:
            channels, embedding_dim = probe(stem, tail, image_size)
        if attention == "conv":
            trunk = nn.Conv2d(channels, 1, 3, padding=1)
            attention = SpatialAttention(trunk, get_profile(profile).sigma_kernel)
        if head is None:
            head = VariationalHead(embedding_dim, latent_dim, mlp_decoder(latent_dim, num_classes))

        self.stem = stem
        self.attention = attention
        self.quantizer = AnchorQuantizer(quantizer) if isinstance(quantizer, int) else quantizer
        self.tail = tail
        self.head = head

    def forward(
        self,
        x: Tensor,
        samples: tuple[int, int] | None = None,
        *,
        deterministic: bool = False,
        noise: Noise | None = None,
        attention_map: Tensor | None = None,
    ) -> Output:
        """As every classifier; `attention_map` [B,h,w] takes the place of each sample's a_q."""
        self.check_input(x)
        samples = self.resolve_samples(samples, deterministic)
        eps_a, eps_z = noise or (None, None)

        f = self.stem(x)  # [B,c,h,w], computed once for all samples
        f, attention, aux_logits = self.attend(
            f, samples[0], deterministic, eps_a, attention_map
        )  # [S*B,c,h,w]
        samples = (f.shape[0] // x.shape[0], samples[1])  # a deterministic map has one sample
        e = self.tail(f)  # [S*B,d]
        latent, logits = self.head(e, samples, deterministic, eps_z)  # [S,M,B,C]
        return Output(logits, attention, latent, aux_logits, self.profile)

    def attend(
        self,
        f: Tensor,
        num_samples: int,
        deterministic: bool,
        noise: Tensor | None,
        attention_map: Tensor | None = None,
    ) -> tuple[Tensor, Attention | None, Tensor | None]:
        """a ~ p(a|x), its nearest anchors, and the features seen through each of the S maps."""
        if self.attention is None:
            if attention_map is not None:
                raise AibError("this model has no attention, so no map can take its place")
            return f, None, None
        mu, sigma, aux_logits = self.attention(f)  # [B,h,w]
        if deterministic or sigma is None:
            a = mu.unsqueeze(0)  # [1,B,h,w]
        else:
            shape = (num_samples, *mu.shape)
            eps = standard_noise(shape, like=mu) if noise is None else expect(noise, shape, "a")
            a = draw(mu, sigma, eps)  # [S,B,h,w]

        if self.quantizer is None:
            attention = Attention(mu, sigma, a, a, maps=(mu,))
        else:
            a_q, indices, quantization, commitment = self.quantizer(a)
            attention = Attention(mu, sigma, a, a_q, indices, quantization, commitment, (mu,))
        if attention_map is not None:
            attention = attention.seen_through(attention_map)
        return modulate(f, attention.a_q, self.modulation), attention, aux_logits

    @property
    def is_random(self) -> bool:
        """The attention draws, and so does the bottleneck; a model may have neither."""
        parts = self.attention, self.head
        return any(isinstance(part, SpatialAttention | VariationalHead) for part in parts)

    def mean_map(self, attention: Attention) -> tuple[Tensor, Tensor | None]:
        """mu_a, and for a quantised model its anchors' values and their levels."""
        if self.quantizer is None:
            return attention.mu, None
        indices = self.quantizer.nearest(attention.mu)
        return self.quantizer.anchors.detach()[indices], self.quantizer.rank(indices)


def _check_parts(attention: object, quantizer: object, head: object, min_size: object) -> None:
    """The values may come from a file that anybody wrote."""
    if not (isinstance(attention, nn.Module) or attention in ("conv", None)):
        raise AibError(f"attention must be a module, 'conv' or None, not {attention!r}")
    if not (isinstance(quantizer, AnchorQuantizer | int) or quantizer is None):
        raise AibError(f"quantizer must be one, a number of anchors or None, not {quantizer!r}")
    if not (isinstance(head, nn.Module) or head is None):
        raise AibError(f"head must be a module or None, not {head!r}")
    if not isinstance(min_size, int):
        raise AibError(f"min_size must be a whole number, not {min_size!r}")


@torch.no_grad()
def probe(stem: nn.Module, tail: nn.Module, image_size: int) -> tuple[int, int]:
    """Channels of the features and size of the embedding, found by passing one blank image."""
    weight = next(stem.parameters(), torch.empty(0))
    x = torch.zeros(2, 3, image_size, image_size, device=weight.device, dtype=weight.dtype)
    with evaluating(stem, tail):
        f = stem(x)
        if not isinstance(f, Tensor) or f.dim() != 4 or len(f) != 2:
            raise AibError(f"the stem must give features [B, c, h, w], not {describe(f)}")
        e = tail(f)
        if not isinstance(e, Tensor) or e.dim() != 2 or len(e) != 2:
            raise AibError(f"the tail must give embeddings [B, d], not {describe(e)}")
    return f.shape[1], e.shape[1]


def describe(value: object) -> str:
    """A tensor by its shape, anything else by its type."""
    return f"{list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
