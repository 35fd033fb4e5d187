"""Information in a map, and feature energy that it lets through. Entropies are in bits."""

from typing import Literal

import torch
from torch import Tensor

from aib.errors import AibError
from aib.gaussian import nats_to_bits
from aib.interpret.metrics.checks import check_batch, check_maps, shape


def anchor_counts(indices: Tensor, num_anchors: int) -> Tensor:
    """How often each map uses each anchor: indices [...,h,w] to integers [...,Q]."""
    if indices.ndim < 2 or indices.numel() == 0:
        raise AibError(f"indices must have the shape [...,h,w] and not be empty: {shape(indices)}")
    if indices.is_floating_point() or num_anchors < 1:
        raise AibError(
            f"indices must be integers below num_anchors >= 1, not {indices.dtype} "
            f"and {num_anchors}"
        )
    flat = indices.flatten(-2).long()  # [...,h*w]
    # Synchronises once: on a GPU an index out of range would end the process.
    least, most = torch.stack(flat.aminmax()).tolist()
    if least < 0 or most >= num_anchors:
        raise AibError(f"indices must lie in 0 to {num_anchors - 1}, not {least} to {most}")
    counts = flat.new_zeros(*flat.shape[:-1], num_anchors)
    return counts.scatter_add_(-1, flat, torch.ones_like(flat))


def count_entropy(counts: Tensor) -> Tensor:
    """Entropy in bits of the distribution given by counts [...,Q]: [...]."""
    shares = counts.double() / counts.double().sum(dim=-1, keepdim=True)
    # H = -sum p log2 p, where p log p is 0 at p = 0 (xlogy knows).
    return nats_to_bits(-torch.xlogy(shares, shares).sum(dim=-1)).clamp_min(0)


def index_entropy(indices: Tensor, num_anchors: int) -> Tensor:
    """Entropy in bits of each map's anchor indices: [...,h,w] to [...]; 0 to log2 Q."""
    return count_entropy(anchor_counts(indices, num_anchors))


def perplexity(entropy_bits: Tensor) -> Tensor:
    """The number of equally used anchors that has this entropy: 2^H."""
    return torch.exp2(entropy_bits)


def anchor_perplexity(indices: Tensor, num_anchors: int) -> Tensor:
    """Perplexity of the anchors over all maps together, a scalar from 1 to Q."""
    counts = anchor_counts(indices, num_anchors).reshape(-1, num_anchors).sum(dim=0)
    return perplexity(count_entropy(counts))


def energy_passed(
    features: Tensor, maps: Tensor, modulation: Literal["gate", "residual"] = "gate"
) -> Tensor:
    """Energy of the modulated features over that of the features, per image [B].

    Features f [B,C,h,w], maps a [B,h,w]. `gate` passes f a, a share of at most 1 for a in [0,1];
    `residual` passes f (1 + a), which filters nothing: 1 to 4. NaN where the features are all 0.
    """
    check_batch(features, "features")
    check_maps(maps)
    if maps.shape != (len(features), *features.shape[2:]):
        raise AibError(f"maps {shape(maps)} do not fit features {shape(features)}")
    if modulation not in ("gate", "residual"):
        raise AibError(f"modulation must be 'gate' or 'residual', not {modulation!r}")
    factor = maps if modulation == "gate" else 1 + maps
    # sum_c (f_c m)^2 = m^2 sum_c f_c^2: the modulated features themselves are not needed.
    energy = features.float().square().sum(dim=1)  # [B,h,w]
    passed = (energy * factor.float().square()).sum(dim=(1, 2))
    return passed / energy.sum(dim=(1, 2))
