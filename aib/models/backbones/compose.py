"""Default parts of `AIB(stem, tail)`: attention, quantiser and head for two modules."""

from typing import Literal

import torch
from torch import Tensor, nn

from aib.config.profiles import get_profile
from aib.config.validation import Count, NumAnchors, ProfileName, check
from aib.errors import AibError
from aib.models.attention import SpatialAttention
from aib.models.latent import LinearHead, VariationalHead, mlp_decoder
from aib.models.modes import evaluating
from aib.models.quantize import AnchorQuantizer


def make_parts(
    stem: nn.Module,
    tail: nn.Module,
    num_classes: int,
    image_size: int,
    attention: nn.Module | Literal["conv"] | None,
    quantizer: AnchorQuantizer | int | None,
    head: VariationalHead | LinearHead | None,
    latent_dim: int,
    profile: ProfileName,
) -> tuple[nn.Module | None, AnchorQuantizer | None, nn.Module]:
    """Attention, quantiser and head; what is given as a module is used as it is."""
    # Types too: the values may come from a config.json.
    check("attention", attention, nn.Module | Literal["conv"] | None)
    check("quantizer", quantizer, AnchorQuantizer | NumAnchors | None)
    check("head", head, nn.Module | None)
    check("latent_dim", latent_dim, Count)
    like = next(stem.parameters(), torch.empty(0))  # device and dtype of what is made here
    channels, embedding_dim = 0, 0
    if attention == "conv" or head is None:
        channels, embedding_dim = probe(stem, tail, image_size)
    if attention == "conv":
        trunk = nn.Conv2d(channels, 1, 3, padding=1)
        attention = SpatialAttention(trunk, get_profile(profile).sigma_kernel).to(like)
    if isinstance(quantizer, int):
        quantizer = AnchorQuantizer(quantizer).to(like)
    if head is None:
        decoder = mlp_decoder(latent_dim, num_classes)
        head = VariationalHead(embedding_dim, latent_dim, decoder).to(like)
    return attention, quantizer, head


@torch.no_grad()
def probe(stem: nn.Module, tail: nn.Module, image_size: int) -> tuple[int, int]:
    """Channels of the features and size of the embedding, from a pass of blank images."""
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
    """The shape of a tensor, or the type of anything else, for an error message."""
    return f"{list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
