"""The loss of four terms (paper, Eq. 10 with its sign corrected), plus that of a second head."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.config.profiles import PROFILES
from aib.errors import AibError
from aib.models.gaussian import kl_released, kl_to_standard_normal
from aib.models.types import LossTerms, Output, widen

# Weight of each of a network's auxiliary heads, by their number: Inception v3 has one (PyTorch's
# fine-tuning tutorial) and GoogLeNet two (Szegedy et al. 2015).
HEAD_WEIGHT = {1: 0.4, 2: 0.3}


def aib_loss(
    out: Output,
    y: Tensor,
    beta: float | Tensor = 0.01,
    lambda_q: float = 0.4,
    lambda_c: float = 0.1,
    lambda_area: float = 5.0,
    area: float | Tensor = 1.0,
) -> LossTerms:
    """L = nll + beta KL + lambda_q quantization + lambda_c commitment (+ auxiliary), in nats.

    The released profile takes nll, KL and auxiliary in bits, and halves the KL of VGG at 32.
    As printed, the paper's minus sign applies to every term and would maximise three of them.
    Masked models add lambda_area * mean_i relu(area_i - area): what the mask of each image opens
    beyond its budget `area`; 1 is no budget.
    Labels `y` are class indices, int64 [B], or probabilities, float [B,C].
    Terms that a model does not have are zero. `beta` and `area` may be tensors, so that a schedule
    does not recompile a compiled step.
    """
    _check_labels(out.sample_logits, y)
    profile = PROFILES[out.profile]
    zero = out.sample_logits.new_zeros((), dtype=torch.float32)
    if y.is_floating_point():
        y = y.to(widen(out.sample_logits).dtype)

    if profile.average_logits:
        nll = F.cross_entropy(out.average("logits"), y)
    else:  # E_a E_z [-log q(y|z)]
        samples = widen(out.sample_logits)  # [S,M,B,C]
        target = y.expand(*samples.shape[:2], *y.shape).flatten(0, 2)  # [S*M*B] or [S*M*B,C]
        nll = F.cross_entropy(samples.flatten(0, 2), target)

    kl = zero
    if out.latent is not None:
        divergence = kl_to_standard_normal if profile.exact_kl else kl_released
        kl = divergence(out.latent.mu, out.latent.sigma).mean()  # over S and B

    mean_area = zero if out.attention is None else widen(out.attention.a_q).mean()
    if out.mask is not None:
        mean_area = widen(out.mask).mean()
    excess = zero
    if out.mask is not None and out.attention is not None:
        opened = area_per_image(out.attention.mu, out.mask)  # [B]
        mean_area, excess = opened.mean(), F.relu(opened - area).mean()

    quantization = commitment = zero
    if out.attention is not None and out.attention.quantization is not None:
        assert out.attention.commitment is not None  # the quantiser gives both
        quantization, commitment = out.attention.quantization, out.attention.commitment

    auxiliary = zero
    if out.aux_logits is not None:
        auxiliary = F.cross_entropy(widen(out.aux_logits), y)
    for logits in out.aux_heads:
        labels = torch.cat([y] * (len(logits) // len(y)))  # for each of the attention samples
        weight = HEAD_WEIGHT.get(len(out.aux_heads), 0.3)
        auxiliary = auxiliary + weight * F.cross_entropy(widen(logits), labels)

    unit = 1 / math.log(2) if profile.bits else 1.0
    total = unit * (nll + beta * out.kl_weight * kl + auxiliary)
    total = total + lambda_q * quantization + lambda_c * commitment
    if out.mask is not None:
        total = total + lambda_area * excess
    return LossTerms(total, nll, kl, quantization, commitment, auxiliary, mean_area, excess)


def area_per_image(mu: Tensor, mask: Tensor) -> Tensor:
    """area_i = mean(mu_i) + stop_gradient(mean(m_i) - mean(mu_i)), [B].

    The value is that of the mask, the gradient that of mu [B,h,w]: m has none where it is clipped.
    """
    opened = mask.mean((0, 2, 3))  # [B], over samples and pixels
    proposed = mu.mean((1, 2))  # [B]
    return proposed + (opened - proposed).detach()


def _check_labels(sample_logits: Tensor, y: Tensor) -> None:
    batch, num_classes = sample_logits.shape[-2:]
    soft = y.is_floating_point()
    wanted = (batch, num_classes) if soft else (batch,)
    if tuple(y.shape) != wanted or not (soft or y.dtype == torch.int64):
        raise AibError(
            f"labels must be int64 class indices of shape ({batch},) or float probabilities of "
            f"shape ({batch}, {num_classes}), not {y.dtype} of shape {tuple(y.shape)}"
        )
    # On an accelerator reading the values would synchronise, so that only the CPU checks them.
    if y.device.type != "cpu" or torch.compiler.is_compiling() or batch == 0:
        return
    if soft:
        low, off = float(y.min()), float((y.sum(1) - 1).abs().max())
        if not (low >= 0 and off < 0.01):  # also if not a number
            raise AibError(
                "labels that are probabilities must be at least 0 and add up to 1 for each image; "
                f"the lowest is {low:g}, and a sum is off by {off:g}"
            )
        return
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        raise AibError(
            f"labels go from {low} to {high}, but the model has {num_classes} classes "
            f"(0 to {num_classes - 1})"
        )
