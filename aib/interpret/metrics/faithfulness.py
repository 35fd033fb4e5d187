"""Deletion and insertion: does the probability depend on the pixels that the map highlights?

Deletion removes an image's pixels, the map's highest first, and records the probability of the
class predicted for the full image: a faithful map makes it fall early (a small area under the
curve). Insertion adds the same pixels to an empty image: it should rise early (a large area).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.errors import AibError
from aib.interpret.metrics.checks import check_batch, check_maps, resize_maps, shape
from aib.interpret.metrics.seeded import Stream, random_words

Baseline = Literal["blur", "mean"]


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
    baseline: Baseline | Tensor = "blur",
    output: Literal["logits", "probabilities"] = "logits",
    seed: int = 0,
) -> Curves:
    """Both curves for images x [B,C,H,W] and maps [B,h,w] (bilinearly resized to the images).

    A missing pixel shows the baseline: `blur` (the image, strongly blurred), `mean` (the image's
    mean colour) or a tensor that broadcasts to x. A sharp substitute can look like an object, so
    blur is the default. `predict` gives [B,C'], or an object with such `.logits`; `output` tells
    whether these are logits or probabilities. Tied pixels are removed in a random order of `seed`,
    the same for every image.
    """
    check_batch(x)
    check_maps_of(maps, len(x))
    if steps < 1:
        raise AibError(f"steps must be at least 1, not {steps}")
    empty = baseline_images(x, baseline)
    rank = removal_order(resize_maps(maps, (x.shape[2], x.shape[3])), seed=seed)[:, None]
    certainty, predicted = probabilities(predict(x), output, len(x)).max(dim=1)  # [B] each

    def probability(images: Tensor) -> Tensor:
        values = probabilities(predict(images), output, len(x))
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


def baseline_images(x: Tensor, baseline: Baseline | Tensor) -> Tensor:
    """The image shown where pixels are missing, shaped like x [B,C,H,W]."""
    if isinstance(baseline, Tensor):
        try:
            return baseline.to(x).expand_as(x)
        except RuntimeError as error:
            raise AibError(
                f"a baseline of shape {shape(baseline)} does not fit images {shape(x)}"
            ) from error
    if baseline == "mean":
        return x.mean(dim=(2, 3), keepdim=True).expand_as(x)
    if baseline == "blur":
        return _blur(x)
    raise AibError(f"baseline must be 'blur', 'mean' or a tensor, not {baseline!r}")


def _blur(x: Tensor) -> Tensor:
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


def check_maps_of(maps: Tensor, images: int) -> None:
    """Check one map [B,h,w] for each image."""
    check_maps(maps)
    if len(maps) != images:
        raise AibError(f"there are {len(maps)} maps for {images} images")


def probabilities(result: Any, output: str, batch: int) -> Tensor:
    """Probabilities [B,C'] from what a classifier returns: a tensor, or an object with .logits."""
    values = result if isinstance(result, Tensor) else result.logits
    if values.ndim != 2 or len(values) != batch:
        raise AibError(f"predict must give [{batch},classes], not {shape(values)}")
    if output == "logits":
        return values.float().softmax(dim=1)
    if output == "probabilities":
        return values.float()
    raise AibError(f"output must be 'logits' or 'probabilities', not {output!r}")
