"""Control maps that do not depend on the image: a real map has to beat them."""

import torch
from torch import Tensor

from aib.errors import AibError
from aib.interpret.metrics.seeded import Stream, uniform


def centre_gaussian(
    batch: int,
    size: tuple[int, int],
    *,
    sigma: float = 0.25,
    device: torch.device | str | None = None,
) -> Tensor:
    """One Gaussian at the image's centre, for every image [B,H,W]; sigma in image sides.

    Photographs have their object in the middle, so this control is hard to beat on them.
    """
    _check_size(size)
    if batch < 1 or not sigma > 0:
        raise AibError(f"batch must be at least 1 and sigma positive, not {batch} and {sigma}")
    y, x = (_from_centre(side, device) / (sigma * side) for side in size)
    # exp(-(x^2 + y^2) / 2) with x and y in units of sigma: 1 at the centre itself.
    gaussian = torch.exp(-(y[:, None] ** 2 + x[None, :] ** 2) / 2)  # [H,W]
    return gaussian.expand(batch, *size)


def random_map(index: Tensor, size: tuple[int, int], *, seed: int = 0) -> Tensor:
    """Independent uniform values in [0, 1) for images `index` [B]: [B,H,W]."""
    _check_size(size)
    if index.ndim != 1 or index.is_floating_point():
        raise AibError(f"index must be [B] integers, not {index.dtype} {list(index.shape)}")
    values = uniform(seed, Stream.RANDOM_MAP, index, size[0] * size[1])
    return values.reshape(len(index), *size)


def _from_centre(side: int, device: torch.device | str | None) -> Tensor:
    return torch.arange(side, device=device) - (side - 1) / 2


def _check_size(size: tuple[int, int]) -> None:
    if len(size) != 2 or min(size) < 1:
        raise AibError(f"size must be (height, width), both at least 1, not {tuple(size)}")
