"""Attention with an information bottleneck: the whole method, top to bottom. Read this first.

    x -> features f -> attention a ~ N(mu_a, sigma_a) -> nearest anchor a_q -> modulate f
      -> latent z ~ N(mu_z, sigma_z) -> decoder -> logits

The attention decides which positions of f reach the latent; the loss penalises the latent for
every nat it carries (`loss.py`). So a position is let through only if it raises the likelihood.
"""

from typing import Any

from torch import Tensor, nn

from aib.config.profiles import get_modulation
from aib.config.validation import Modulation
from aib.models.attention import check_parameters, modulate, sample_attention
from aib.models.classifier import Classifier
from aib.models.latent import LinearHead, VariationalHead
from aib.models.quantize import AnchorQuantizer
from aib.models.types import Attention, Given, Output, Sampling


class AIB(Classifier):
    """stem, attention, quantiser, tail, head. Attention and quantiser may be left out.

    Without a quantiser it is the paper's `-aib`; without attention it is DVIB; with a linear head
    as well it is the plain network.
    """

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        """The forward pass; `Classifier.forward` has checked input and samples before."""
        f = self.stem(x)  # [B,c,h,w], computed once for all samples
        f, attention, aux_logits = self.attend(f, sampling, given.attention_map)  # [S*B,c,h,w]
        e = self.tail(f)  # [S*B,d]
        samples = (e.shape[0] // x.shape[0], sampling.m)  # a deterministic map has one sample
        eps_z = sampling.noise.z
        latent, logits = self.head(e, samples, sampling.deterministic, eps_z)  # [S,M,B,C]
        return Output(logits, attention, latent, aux_logits)

    def attend(
        self, f: Tensor, sampling: Sampling, attention_map: Tensor | None
    ) -> tuple[Tensor, Attention | None, Tensor | None]:
        """Sample a ~ p(a|x), quantise it, and modulate the features by each of the S maps."""
        if self.attention is None:
            return f, None, None
        mu, sigma, aux_logits = check_parameters(self.attention(f), f)  # [B,h,w]
        attention = sample_attention(mu, sigma, self.quantizer, sampling, attention_map)
        return modulate(f, attention.a_q, self.modulation), attention, aux_logits

    def __init__(
        self,
        stem: nn.Module,  # images to features [B,c,h,w]
        tail: nn.Module,  # features to embeddings [B,d]
        head: VariationalHead | LinearHead,
        num_classes: int,
        *,
        attention: nn.Module | None = None,  # features to `AttentionParameters`
        quantizer: AnchorQuantizer | None = None,
        modulation: Modulation | None = None,
        **options: Any,  # of Classifier
    ):
        super().__init__(num_classes, **options)
        self.modulation = get_modulation(modulation, self.profile)
        self.stem = stem  # in the order of the forward pass, which the state dict keeps
        self.attention, self.quantizer = attention, quantizer
        self.tail, self.head = tail, head
        self.takes_map = attention is not None
        noisy = getattr(attention, "to_sigma", None) is not None
        self.is_random = noisy or isinstance(head, VariationalHead)

    def mean_map(self, attention: Attention) -> tuple[Tensor, Tensor | None]:
        """mu_a, or its nearest anchors' values and levels for a quantised model."""
        return self.quantizer.snap(attention.mu) if self.quantizer else (attention.mu, None)
