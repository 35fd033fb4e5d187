"""The loss of four terms (paper, Eq. 10 with its sign corrected), plus that of a second head."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.config.profiles import get_profile
from aib.config.validation import Averaging, Budget, ProfileName, check
from aib.models.gaussian import kl_released, kl_to_standard_normal, widen
from aib.models.types import LossTerms, Output


def aib_loss(
    out: Output,
    y: Tensor,
    beta: float | Tensor = 0.01,
    lambda_q: float = 0.4,
    lambda_c: float = 0.1,
    *,
    area: float | Tensor = 1.0,
    lambda_area: float = 5.0,
    budget: Budget = "image",
    profile: ProfileName = "paper",
) -> LossTerms:
    """L = nll + beta KL + lambda_q quantization + lambda_c commitment (+ auxiliary), in nats.

    Masked models add lambda_area * mean_i relu(area_i - area): what each mask opens beyond its
    budget `area`; 1 is no budget. With budget="mean" it is lambda_area * relu(mean_i area_i -
    area): large objects may take what small ones leave. The released profile takes nll, KL and
    auxiliary in bits.

    Labels `y` are class indices [B] or probabilities [B,C]. Terms that a model does not have are
    zero. As tensors, `beta` and `area` may change without recompiling a compiled step.
    """
    check("budget", budget, Budget)
    rules = get_profile(profile)
    nll = negative_log_likelihood(out, y, rules.averaging)
    zero = torch.zeros_like(nll)

    kl = zero
    if out.latent is not None:
        divergence = kl_to_standard_normal if rules.exact_kl else kl_released
        kl = divergence(out.latent.mu, out.latent.sigma).mean()  # over S and B

    quantization = commitment = mean_area = excess = zero
    if out.attention is not None:
        mean_area = widen(out.attention.a_q).mean()
        if out.attention.quantization is not None:
            assert out.attention.commitment is not None  # the quantiser gives both
            quantization, commitment = out.attention.quantization, out.attention.commitment
    if out.mask is not None:
        mean_area = widen(out.mask).mean()
        if out.attention is not None:
            opened = area_per_image(out.attention.mu, out.mask)  # [B]
            mean_area = opened.mean()
            excess = F.relu((mean_area if budget == "mean" else opened) - area).mean()

    auxiliary = zero if out.aux_logits is None else cross_entropy(out.aux_logits, y)
    unit = 1 / math.log(2) if rules.bits else 1.0
    total = unit * (nll + beta * kl + auxiliary)
    total = total + lambda_q * quantization + lambda_c * commitment + lambda_area * excess
    return LossTerms(total, nll, kl, quantization, commitment, auxiliary, mean_area, excess)


def negative_log_likelihood(out: Output, y: Tensor, averaging: Averaging) -> Tensor:
    """E_a E_z [-log q(y|z)] over the samples; or that of their mean logits."""
    if averaging == "logits":
        return cross_entropy(out.average("logits"), y)
    samples = out.sample_logits  # [S,M,B,C]
    labels = y.expand(*samples.shape[:2], *y.shape).flatten(0, 2)  # [S*M*B] or [S*M*B,C]
    return cross_entropy(samples.flatten(0, 2), labels)


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy in at least float32, with class indices or probabilities."""
    logits = widen(logits)
    return F.cross_entropy(logits, y.to(logits.dtype) if y.is_floating_point() else y)


def area_per_image(mu: Tensor, mask: Tensor) -> Tensor:
    """area_i = mean(mu_i) + stop_gradient(mean(m_i) - mean(mu_i)), [B].

    The value is that of the mask, the gradient that of mu [B,h,w]: m has none where it is clipped.
    """
    opened = mask.mean((0, 2, 3))  # [B], over samples and pixels
    proposed = mu.mean((1, 2))  # [B]
    return proposed + (opened - proposed).detach()
