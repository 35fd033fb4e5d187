"""Deletion and insertion: does the probability depend on the pixels that the map highlights?

Deletion removes an image's pixels, the map's highest first, and records the probability of the
class predicted for the full image: a faithful map makes it fall early (a small area under the
curve). Insertion adds the same pixels to an empty image: it should rise early (a large area).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.interpret.metrics.checks import (
    check_finite,
    check_maps,
    class_logits,
    count_broken,
    resize_maps,
)
from aib.interpret.metrics.seeded import Stream, normal, random_words


@dataclass(frozen=True)
class Curve:
    """Probability of the class predicted for the full image, as pixels are removed or added."""

    fractions: Tensor  # [T+1], share of the pixels removed or added, from 0 on
    values: Tensor  # [B,T+1]

    @property
    def area(self) -> Tensor:
        """Mean height of each image's curve [B]."""
        return torch.trapezoid(self.values, self.fractions, dim=1) / self.fractions[-1]


@torch.no_grad()
def deletion_insertion(
    predict: Callable[[Tensor], Any],
    x: Tensor,
    maps: Tensor,
    *,
    steps: int = 16,
    baseline: Tensor | None = None,
    seed: int = 0,
) -> dict[str, Curve]:
    """Both curves by name for images x [B,C,H,W] and maps [B,h,w] (resized to the images).

    A missing pixel shows the baseline, a tensor that broadcasts to x; by default the image,
    strongly blurred, as a sharp substitute can look like an object. `predict` gives logits [B,C'],
    or an object with such `.logits`. Tied pixels are removed in a random order of `seed`, the same
    for every image. A faithful map has a small area of deletion and a large one of insertion.
    """
    rank = ranked_pixels(x, maps, seed)
    empty = blurred(x) if baseline is None else baseline.to(x).expand_as(x)
    certainty, probability = predicted_class(predict, x)
    blank = probability(empty)
    deletion, insertion = [certainty], [blank]
    for step in range(1, steps):
        taken = rank < round(step * x.shape[2] * x.shape[3] / steps)  # [B,1,H,W]
        deletion.append(probability(torch.where(taken, empty, x)))
        insertion.append(probability(torch.where(taken, x, empty)))
    fractions = torch.linspace(0, 1, steps + 1, device=x.device)
    return {
        "deletion": Curve(fractions, torch.stack([*deletion, blank], dim=1)),
        "insertion": Curve(fractions, torch.stack([*insertion, certainty], dim=1)),
    }


def ranked_pixels(x: Tensor, maps: Tensor, seed: int) -> Tensor:
    """Each pixel's rank [B,1,H,W] by the map of its image, 0 for the highest value."""
    check_maps(maps, len(x))
    check_finite(int(count_broken(maps)))
    return removal_order(resize_maps(maps, (x.shape[2], x.shape[3])), seed=seed)[:, None]


def predicted_class(
    predict: Callable[[Tensor], Any], x: Tensor
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The probability [B] of the class predicted for each image, and a function that gives it for
    changed images."""

    def probabilities(images: Tensor) -> Tensor:
        return class_logits(predict(images), len(x)).float().softmax(dim=1)

    certainty, predicted = probabilities(x).max(dim=1)
    return certainty, lambda images: probabilities(images).gather(1, predicted[:, None])[:, 0]


def removal_order(maps: Tensor, *, seed: int = 0) -> Tensor:
    """Each pixel's rank from the highest value to the lowest: 0 is first; integers [B,H,W].

    Quantised maps have few levels. In raster order their ties would be removed row by row, and
    objects at the top would seem better found than those below; so ties are broken at random.
    """
    values = maps.flatten(1)  # [B,n]
    zero = torch.zeros(1, dtype=torch.long, device=maps.device)
    shuffled = random_words(seed, Stream.TIES, zero, values.shape[1])[0].argsort(stable=True)  # [n]
    order = shuffled[values[:, shuffled].argsort(dim=1, descending=True, stable=True)]  # [B,n]
    ranks = torch.arange(values.shape[1], device=maps.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, ranks).reshape(maps.shape)


def blurred(x: Tensor) -> Tensor:
    """Gaussian blur with sigma an eighth of the short side, borders reflected."""
    channels, sigma = x.shape[1], min(x.shape[2:]) / 8
    # Reflection needs a reach below the side; three sigma (3/8 of a side) exceed it only in images
    # of a few pixels.
    reach = min(round(3 * sigma), min(x.shape[2:]) - 1)
    offset = torch.arange(-reach, reach + 1, device=x.device)
    kernel = torch.exp(-((offset / sigma) ** 2) / 2)
    kernel = (kernel / kernel.sum()).to(x.dtype).expand(channels, 1, 1, -1)  # [C,1,1,2*reach+1]
    x = F.pad(x, (reach, reach, reach, reach), mode="reflect")
    x = F.conv2d(x, kernel, groups=channels)  # along the rows
    return F.conv2d(x, kernel.transpose(2, 3), groups=channels)  # then the columns


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
