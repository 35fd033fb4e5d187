"""Images without their object: the hole is filled from its surroundings."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

GROWN = 0.02  # of the side, on each side of the object: shadows and blurred borders go too
SIGMA = 0.02  # of the first blur, in sides; each further one is twice as wide
ENOUGH = 0.5  # pixels' worth of known neighbours that a filled pixel needs


def fill_hole(images: Tensor, masks: Tensor) -> Tensor:
    """Fill the holes that objects leave in images, by repeated normalised Gaussian blur.

    `images` are float [B,3,H,W] of any scale; `masks` are bool [B,H,W], True on the object and on
    its uncertain border. The hole is the mask dilated by 2% of the side. Each blur averages over
    the known pixels alone, and those it fills are known to the next one. A hole without
    surroundings gets the image's mean colour.
    """
    reach = math.ceil(GROWN * masks.shape[2])
    hole = F.max_pool2d(masks[:, None].float(), 2 * reach + 1, 1, reach) > 0  # [B,1,H,W]
    nothing = hole.all(3, keepdim=True).all(2, keepdim=True)  # [B,1,1,1]
    values = torch.where(nothing, images.mean((2, 3), keepdim=True), images)
    known = ~hole | nothing
    sigma = SIGMA * masks.shape[2]
    while not bool(known.all()):
        weight = _blur(known.to(values), sigma)
        mean = _blur(values * known, sigma) / weight
        new = ~known & (weight >= ENOUGH)
        values, known, sigma = torch.where(new, mean, values), known | new, 2 * sigma
    return values


def _blur(values: Tensor, sigma: float) -> Tensor:
    """The sum of [B,C,H,W] under a Gaussian around each pixel, whose own weight is 1."""
    rows, columns = (_gaussians(size, sigma).to(values) for size in values.shape[2:])
    return rows @ values @ columns


def _gaussians(size: int, sigma: float) -> Tensor:
    at = torch.arange(size) / sigma
    weights = torch.exp(-((at[:, None] - at).square()) / 2)  # [size,size]
    return weights * (weights > 1e-12)  # denormal numbers are slow
