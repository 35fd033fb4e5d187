"""Information in a map, and feature energy that it lets through. Entropies are in bits."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from aib.models import decision


def anchor_counts(indices: Tensor, num_anchors: int) -> Tensor:
    """How often each map uses each anchor: indices [...,h,w] to integers [...,Q]."""
    return F.one_hot(indices.flatten(-2).long(), num_anchors).sum(dim=-2)


def entropy_bits(counts: Tensor) -> Tensor:
    """Entropy of the distribution given by counts [...,Q]: [...], 0 to log2 Q.

    2^H is the perplexity, the number of equally used anchors that has this entropy.
    """
    return decision.entropy_bits(counts.double() / counts.double().sum(dim=-1, keepdim=True))


def energy_passed(
    features: Tensor, maps: Tensor, modulation: Literal["gate", "residual"]
) -> Tensor:
    """Energy of the modulated features over that of the features, per image [B].

    Features f [B,C,h,w], maps a [B,h,w]. `gate` passes f a, a share of at most 1 for a in [0,1];
    `residual` passes f (1 + a), which filters nothing: 1 to 4. NaN where the features are all 0.
    """
    factor = maps if modulation == "gate" else 1 + maps
    # sum_c (f_c m)^2 = m^2 sum_c f_c^2: the modulated features themselves are not needed.
    energy = features.float().square().sum(dim=1)  # [B,h,w]
    passed = (energy * factor.float().square()).sum(dim=(1, 2))
    return passed / energy.sum(dim=(1, 2))
