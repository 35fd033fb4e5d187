"""Deletion and insertion: does the probability depend on the pixels that the map highlights?

Deletion removes an image's pixels, the map's highest first, and records the probability of the
class predicted for the full image: a faithful map makes it fall early (a small area under the
curve). Insertion adds the same pixels to an empty image: it should rise early (a large area).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.errors import AibError
from aib.interpret.metrics.checks import check_batch, check_maps, shape
from aib.interpret.metrics.localise import resize_maps
from aib.interpret.metrics.seeded import Stream, random_words


@dataclass(frozen=True)
class Curves:
    """Probability of the originally predicted class as pixels are removed or added."""

    fractions: Tensor  # [T+1], share of the pixels removed or added, 0 to 1
    deletion: Tensor  # [B,T+1]
    insertion: Tensor  # [B,T+1]
    predicted: Tensor  # [B]

    @property
    def deletion_area(self) -> Tensor:
        """Area under each image's deletion curve [B]; lower is more faithful."""
        return torch.trapezoid(self.deletion, self.fractions, dim=1)

    @property
    def insertion_area(self) -> Tensor:
        """Area under each image's insertion curve [B]; higher is more faithful."""
        return torch.trapezoid(self.insertion, self.fractions, dim=1)


@torch.no_grad()
def deletion_insertion(
    predict: Callable[[Tensor], Any],
    x: Tensor,
    maps: Tensor,
    *,
    steps: int = 16,
    baseline: Tensor | None = None,
    seed: int = 0,
) -> Curves:
    """Both curves for images x [B,C,H,W] and maps [B,h,w] (bilinearly resized to the images).

    A missing pixel shows the baseline, a tensor that broadcasts to x; by default the image,
    strongly blurred, as a sharp substitute can look like an object. `predict` gives logits [B,C'],
    or an object with such `.logits`. Tied pixels are removed in a random order of `seed`, the same
    for every image.
    """
    check_images_and_maps(x, maps)
    empty = blurred(x) if baseline is None else baseline.to(x).expand_as(x)
    rank = removal_order(resize_maps(maps, (x.shape[2], x.shape[3])), seed=seed)[:, None]
    certainty, predicted = probabilities(predict(x), len(x)).max(dim=1)  # [B] each

    def probability(images: Tensor) -> Tensor:
        values = probabilities(predict(images), len(x))
        return values.gather(1, predicted[:, None])[:, 0]  # [B]

    blank = probability(empty)
    deletion, insertion = [certainty], [blank]
    for step in range(1, steps):
        taken = rank < round(step * x.shape[2] * x.shape[3] / steps)  # [B,1,H,W]
        deletion.append(probability(torch.where(taken, empty, x)))
        insertion.append(probability(torch.where(taken, x, empty)))
    return Curves(
        fractions=torch.linspace(0, 1, steps + 1, device=x.device),
        deletion=torch.stack([*deletion, blank], dim=1),
        insertion=torch.stack([*insertion, certainty], dim=1),
        predicted=predicted,
    )


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


def check_images_and_maps(x: Tensor, maps: Tensor) -> None:
    """Check images [B,C,H,W] with one map [B,h,w] each."""
    check_batch(x)
    check_maps(maps)
    if len(maps) != len(x):
        raise AibError(f"there are {len(maps)} maps for {len(x)} images")


def probabilities(result: Any, batch: int) -> Tensor:
    """Probabilities [B,C'] from a classifier's logits: a tensor, or an object with .logits."""
    logits = result if isinstance(result, Tensor) else result.logits
    if logits.ndim != 2 or len(logits) != batch:
        raise AibError(f"predict must give [{batch},classes], not {shape(logits)}")
    return logits.float().softmax(dim=1)
