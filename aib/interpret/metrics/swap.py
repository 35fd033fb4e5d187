"""Decisions under other maps than the image's own, in two passes over all images.

The first pass stores each image's map and decision; the second decides under the map's mean, under
the map shuffled in space, and under the maps of other images, chosen from all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.data import Batch
from aib.data.objects import object_and_counted
from aib.errors import AibError
from aib.interpret.measured import Drop
from aib.interpret.metrics.checks import check_finite, count_broken
from aib.interpret.metrics.columns import Columns
from aib.interpret.metrics.seeded import Stream, random_words

MAX_CHANGE = 0.05  # of an image's probabilities with its own map given; rounding changes far less
MAX_CHANGED = 0.01  # of the images: more could cost a point of accuracy by themselves

Predict = Callable[[Tensor, Tensor], Tensor]  # images and maps to logits


class Partners(NamedTuple):
    """The image [N] whose map each image gets, by position; -1 where there is none."""

    another: Tensor  # any other image
    same_class: Tensor  # another image of the same predicted class
    other_class: Tensor  # an image of another predicted class


@dataclass(frozen=True)
class Decisions:
    """What a model decides on N images, under their own maps and under others."""

    labels: Tensor  # [N], on the CPU, as all but the maps and the masks
    index: Tensor  # [N], positions in the data set
    maps: Tensor  # [N,h,w]
    # [N,h,w], the share of each position's counted pixels that the object covers; None if the mask
    # of any image is unknown
    objects: Tensor | None
    own: Tensor  # [N], the predicted class
    under: dict[str, Tensor]  # the same with the map replaced; "blank": own map, blank image
    partners: Partners
    num_classes: int
    changed: Tensor  # [N], bool: the own map, given to the model, changes the probabilities

    def right(self, name: str | None = None) -> Tensor:
        """Which predictions are correct, bool [N]: under the own maps, or with them replaced."""
        return (self.own if name is None else self.under[name]) == self.labels


def spatial_mean(maps: Tensor) -> Tensor:
    """Each map [B,h,w] replaced by its mean: as much attention, no position."""
    return maps.mean(dim=(1, 2), keepdim=True).expand_as(maps)


def shuffled(maps: Tensor, index: Tensor, *, seed: int = 0) -> Tensor:
    """Each map's values at random positions, another order for each image `index` [B]."""
    values = maps.flatten(1)  # [B,n]
    numbers = random_words(seed, Stream.SHUFFLE, index.to(maps.device), values.shape[1])
    order = numbers.argsort(dim=1)
    return values.gather(1, order).reshape(maps.shape)


def draw_partners(index: Tensor, classes: Tensor, *, seed: int = 0) -> Partners:
    """Draw partners for images `index` [N] of predicted `classes` [N], uniformly and seeded.

    In an order that keeps each class together, the candidates are neighbours: those after the
    image around the whole circle, around the circle of its class, and from the end of its class
    around to its start.
    """
    count = len(classes)
    order = classes.argsort(stable=True)
    place = order.argsort()  # where each image stands in that order
    sizes = classes.bincount()
    size = sizes[classes]
    start = (sizes.cumsum(0) - sizes)[classes]  # of the image's class
    candidates = torch.stack([torch.full_like(size, count - 1), size - 1, count - size])  # [3,N]
    words = random_words(seed, Stream.PARTNER, index.to(classes.device), 3).T
    step = (words * candidates) >> 32  # uniform from 0 to candidates - 1
    chosen = torch.stack(
        [
            (place + 1 + step[0]) % count,
            start + (place - start + 1 + step[1]) % size,
            (start + size + step[2]) % count,
        ]
    )
    return Partners(*torch.where(candidates > 0, order[chosen], -1))


class Swapping:
    """Decisions under replaced maps, from two passes over the same batches.

    `predict(x, map)` gives logits [B,C] under the map [B,h,w]. `strange`: also under maps that
    belong to no image, which a masked model was never trained with.
    """

    def __init__(self, predict: Predict, *, seed: int = 0, strange: bool = True) -> None:
        self.predict, self.seed, self.strange = predict, seed, strange
        self.parts, self.under = Columns(), Columns()  # of the first and of the second pass
        self.num_classes = self.start = 0

    @torch.no_grad()
    def first(self, batch: Batch, x: Tensor, maps: Tensor, probabilities: Tensor) -> None:
        """Store what a batch of normalised images x shows: its maps [B,h,w] and decisions [B,C]."""
        check_finite(int(count_broken(maps)))
        self.num_classes = probabilities.shape[1]
        found = {"maps": maps, "index": batch.index, "labels": batch.labels}
        given = self.predict(x, maps)
        found |= {"own": probabilities.argmax(1), "changed": is_changed(probabilities, given)}
        size = (maps.shape[1], maps.shape[2])
        shares = None if batch.objects is None else covered(batch.objects, size)  # [B,h,w]
        if shares is not None:
            found["objects"] = shares
        self.parts.add(**found)

    @torch.no_grad()
    def second(self, batch: Batch, x: Tensor) -> None:
        """Decide on the same batch under the replaced maps."""
        maps = self.stored["maps"]
        here = slice(self.start, self.start + len(x))
        self.start = here.stop
        replacements = {
            # An image without a partner (-1) gets some map; the drops do not count it.
            **{name: maps[partner[here]] for name, partner in self.partners._asdict().items()},
            "blank": maps[here],
        }
        if self.strange:
            mixed = shuffled(maps[here], batch.index, seed=self.seed)
            replacements |= {"mean": spatial_mean(maps[here]), "shuffled": mixed}
        for name, replacement in replacements.items():
            seen = torch.zeros_like(x) if name == "blank" else x
            decided = self.predict(seen, replacement).argmax(dim=1)
            self.under.add(**{name: decided})

    @cached_property
    def stored(self) -> dict[str, Tensor]:
        """What the first pass stored, of all images."""
        return self.parts.whole()

    @cached_property
    def partners(self) -> Partners:
        """The images that lend their maps."""
        if len(self.stored["maps"]) < 2:
            raise AibError("a map of another image needs at least 2 images, not 1")
        return draw_partners(self.stored["index"], self.stored["own"], seed=self.seed)

    def decisions(self) -> Decisions:
        """All decisions, after both passes."""
        whole = self.stored
        objects = whole.get("objects")
        return Decisions(
            **{name: whole[name].cpu() for name in ("labels", "index", "own", "changed")},
            maps=whole["maps"],
            objects=objects if objects is not None and len(objects) == len(whole["own"]) else None,
            under={name: decided.cpu() for name, decided in self.under.whole().items()},
            partners=Partners(*(partner.cpu() for partner in self.partners)),
            num_classes=self.num_classes,
        )


def is_changed(free: Tensor, given: Tensor) -> Tensor:
    """Whether probabilities [B,C] differ from those of logits by more than rounding, bool [B]."""
    gap = (free.float() - given.float().softmax(1)).abs().amax(1)
    return ~(gap <= MAX_CHANGE)  # NaN is a change


def check_unchanged(changed: Tensor) -> None:
    """Raise an error unless nearly all images keep their decision with their own map given."""
    count, images = int(changed.sum()), len(changed)
    if count > MAX_CHANGED * images:
        raise AibError(
            "the model does not apply the map that it shows: with this map given to it, the "
            f"probabilities of {count:,} of {images:,} images change, so that replacing the map "
            "would measure nothing. Is it in evaluation mode?"
        )


def covered(objects: Tensor, size: tuple[int, int]) -> Tensor | None:
    """The share of each position's counted pixels that the object covers, [B,h,w].

    0 where no pixel counts; None if that is so in all of an image.
    """
    known = object_and_counted(objects)
    inside, counted = (F.adaptive_avg_pool2d(one[:, None].float(), size)[:, 0] for one in known)
    if not known[1].flatten(1).any(dim=1).all():
        return None
    return inside / counted.masked_fill(counted == 0, 1)


def guessing(labels: Tensor) -> float:
    """Accuracy of naming the most frequent class."""
    return int(labels.bincount().max()) / len(labels)


def drop_between(own: Tensor, replaced: Tensor) -> Drop:
    """The drop between two rows of right or wrong decisions on the same images, bool [n]."""
    lost, gained = int((own & ~replaced).sum()), int((replaced & ~own).sum())
    accuracy = float(own.double().mean())
    return paired_drop(accuracy, lost, gained, len(own))


def paired_drop(accuracy: float, lost: int, gained: int, images: int) -> Drop:
    """The drop, with its 95% interval, when `lost` images turned wrong and `gained` turned right.

    With b lost and c gained of n, the drop is (b - c) / n and its variance
    ((b + c) - (b - c)^2 / n) / n^2. The interval adds 1/2 to b, to c and to both kinds of agreement
    (n + 2 in all; Agresti and Min, 2005), so that few images without a change do not give a
    degenerate interval.
    """
    n, b, c = images + 2, lost + 0.5, gained + 0.5
    centre = (b - c) / n
    z = NormalDist().inv_cdf(0.975)
    reach = z * math.sqrt((b + c) - (b - c) ** 2 / n) / n
    drop = (lost - gained) / images
    low, high = max(centre - reach, -1.0), min(centre + reach, 1.0)
    return Drop(accuracy - drop, drop, low, high)
