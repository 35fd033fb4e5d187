"""ROAD: remove pixels so that the hole cannot be seen, and record the probability of the class.

Rong et al., "A Consistent and Efficient Evaluation Strategy for Attribution Methods" (ICML 2022). A
blurred or blank region shows its own outline, and with it what was removed. Here a removed pixel
becomes the weighted mean of its eight neighbours (1/6 beside it, 1/12 at the corners; of those
inside the image), for all removed pixels at once, plus a little noise: a linear system, solved by
conjugate gradients for a whole batch.

With the most relevant pixels removed first (MoRF) the probability should fall early, with the least
relevant first (LeRF) late. The paper reports accuracy; here it is the probability of the class that
is predicted for the full image, as for deletion and insertion.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.interpret.metrics.faithfulness import Curve, predicted_class, ranked_pixels
from aib.interpret.metrics.seeded import Stream, normal

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)  # of the pixels, as published
NOISE = 0.01  # standard deviation in normalised pixels, as published
TOLERANCE = 1e-3  # of the residual, relative to that of the first guess: well below the noise


@torch.no_grad()
def road(
    predict: Callable[[Tensor], Any],
    x: Tensor,
    maps: Tensor,
    *,
    fractions: Sequence[float] = FRACTIONS,
    noise: float = NOISE,
    seed: int = 0,
) -> dict[str, Curve]:
    """Both curves by name for images x [B,C,H,W] and maps [B,h,w] (resized to the images).

    `predict` and ties as in `deletion_insertion`; every image gets the same noise. A faithful map
    has a small area with the most relevant pixels imputed first, and a large one with the least.
    """
    rank = ranked_pixels(x, maps, seed)
    channels, height, width = x.shape[1:]
    pixels = height * width
    zero = torch.zeros(1, dtype=torch.long, device=x.device)
    grain = normal(seed, Stream.ROAD, zero, channels * pixels).reshape(1, channels, height, width)
    certainty, probability = predicted_class(predict, x)

    twice = x.repeat(2, 1, 1, 1)
    morf, lerf = [certainty], [certainty]
    for fraction in fractions:
        count = round(fraction * pixels)
        removed = torch.cat([rank < count, rank >= pixels - count])  # one solve: [2B,1,H,W]
        imputed = impute_linear(twice, removed) + noise * grain.to(x.dtype) * removed
        for curve, images in zip((morf, lerf), imputed.chunk(2), strict=True):
            curve.append(probability(images))
    shares = torch.tensor([0.0, *fractions], device=x.device)
    return {
        "road_morf": Curve(shares, torch.stack(morf, dim=1)),
        "road_lerf": Curve(shares, torch.stack(lerf, dim=1)),
    }


def impute_linear(x: Tensor, removed: Tensor, *, tolerance: float = TOLERANCE) -> Tensor:
    """x [B,C,H,W] with each removed pixel (bool [B,1,H,W]) the weighted mean of its neighbours.

    With W the weights of neighbours and d their sum inside the image, the removed pixels u solve
    d u - W u = W (known pixels): symmetric and positive definite while a pixel is known, so
    conjugate gradients solve it. They start from the mean of the known pixels.
    """
    known = x.float().masked_fill(removed, 0)
    diagonal = _neighbours(torch.ones_like(known[:1, :1]))  # 1, and less at the border
    mean = known.sum(dim=(2, 3), keepdim=True) / (~removed).sum(dim=(2, 3), keepdim=True)
    filled = torch.where(removed, mean, known)
    residual = (_neighbours(filled) - diagonal * filled) * removed
    step = scaled = residual / diagonal
    size = _dot(residual, scaled)  # [B,C,1,1]
    small = tolerance**2 * size
    for iteration in range(20 * max(x.shape[2:])):  # a bound that is never reached in practice
        # Asked now and then, because each time waits for the device.
        if iteration % 10 == 0 and bool((size <= small).all()):
            break
        image = (diagonal * step - _neighbours(step)) * removed
        # Each image ends on its own, whatever the others in its batch need.
        length = _ratio(size, _dot(step, image)) * (size > small)
        filled.addcmul_(length, step)
        residual.addcmul_(length, image, value=-1)
        scaled = residual / diagonal
        size, before = _dot(residual, scaled), size
        step = scaled.addcmul_(_ratio(size, before), step)
    return filled.to(x.dtype)


def _neighbours(x: Tensor) -> Tensor:
    """Sum of the eight neighbours, 1/6 beside and 1/12 at the corners; 0 outside of the image."""
    # (1 2 1) along both axes is 1 at corners, 2 beside and 4 in the middle.
    x, middle = F.pad(x, (1, 1, 1, 1)), x
    x = torch.add(x[..., :-2], x[..., 1:-1], alpha=2).add_(x[..., 2:])
    x = torch.add(x[..., :-2, :], x[..., 1:-1, :], alpha=2).add_(x[..., 2:, :])
    return x.sub_(middle, alpha=4).div_(12)


def _dot(first: Tensor, second: Tensor) -> Tensor:
    return (first * second).sum(dim=(2, 3), keepdim=True)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """0 where nothing is left to solve."""
    return torch.where(below > 0, above / below.clamp_min(torch.finfo(below.dtype).tiny), 0.0)
