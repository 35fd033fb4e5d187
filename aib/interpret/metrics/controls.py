"""Control maps that do not depend on the image: a real map has to beat them."""

import torch
from torch import Tensor

from aib.interpret.metrics.seeded import Stream, uniform

SIGMA = 0.25  # of the centred Gaussian, in image sides


def centre_gaussian(
    batch: int, size: tuple[int, int], *, device: torch.device | str | None = None
) -> Tensor:
    """One Gaussian at the image's centre, for every image [B,H,W].

    Photographs have their object in the middle, so this control is hard to beat on them.
    """
    y, x = ((torch.arange(side, device=device) - (side - 1) / 2) / (SIGMA * side) for side in size)
    # exp(-(x^2 + y^2) / 2) with x and y in units of sigma: 1 at the centre itself.
    gaussian = torch.exp(-(y[:, None] ** 2 + x[None, :] ** 2) / 2)  # [H,W]
    return gaussian.expand(batch, *size)


def random_map(index: Tensor, size: tuple[int, int], *, seed: int = 0) -> Tensor:
    """Independent uniform values in [0, 1) for images `index` [B]: [B,H,W]."""
    values = uniform(seed, Stream.RANDOM_MAP, index, size[0] * size[1])
    return values.reshape(len(index), *size)
