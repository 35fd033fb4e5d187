"""Does the decision use the map? Replace it, and measure the drop of accuracy.

A map that can be swapped without harm is decorative: it may look right, and shows nothing about
the decision.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import torch
from torch import Tensor

from aib.errors import AibError
from aib.interpret.metrics.checks import check_index, check_maps
from aib.interpret.metrics.seeded import Stream, random_words

Verdict = Literal["used", "decorative", "undecided"]

# A drop of accuracy below one point counts as no harm: a choice, named in every verdict.
HARM = 0.01
# With less accuracy above chance than this many times the harm, there is too little to lose.
ROOM = 5


def spatial_mean(maps: Tensor) -> Tensor:
    """Each map [B,h,w] replaced by its mean: as much attention, no position."""
    check_maps(maps)
    return maps.mean(dim=(1, 2), keepdim=True).expand_as(maps)


def shuffled(maps: Tensor, index: Tensor, *, seed: int = 0) -> Tensor:
    """Each map's values at random positions, another order for each image `index` [B]."""
    check_maps(maps)
    check_index(index, len(maps))
    values = maps.flatten(1)  # [B,n]
    numbers = random_words(seed, Stream.SHUFFLE, index.to(maps.device), values.shape[1])
    order = numbers.argsort(dim=1)
    return values.gather(1, order).reshape(maps.shape)


def from_another(maps: Tensor, index: Tensor, *, seed: int = 0) -> Tensor:
    """Each image gets the map of another image of the batch, and no image its own."""
    check_maps(maps)
    check_index(index, len(maps))
    if len(maps) < 2:
        raise AibError("a map from another image needs a batch of at least 2 images, not 1")
    # In a random order each image takes the map of the one before it: one cycle, no fixed point.
    order = random_words(seed, Stream.PARTNER, index.to(maps.device), 1)[:, 0].argsort(stable=True)
    partner = torch.empty_like(order).scatter_(0, order, order.roll(1))
    return maps[partner]


@dataclass(frozen=True)
class Drop:
    """Accuracy with the model's own maps minus that with the replaced ones, with its interval."""

    accuracy: float  # with the replaced maps
    drop: float
    low: float
    high: float


@dataclass(frozen=True)
class Reliance:
    """Accuracy with the maps replaced (shares, 0 to 1)."""

    images: int
    accuracy: float  # with the model's own maps
    replaced: dict[str, Drop]  # mean, shuffled, another
    harm: float
    chance: float  # accuracy of guessing
    verdict: Verdict

    @property
    def text(self) -> str:
        """The verdict in sentences, with the drops behind it."""
        drops = "; ".join(
            f"{name} {points(d.drop)} points ({points(d.low)} to {points(d.high)})"
            for name, d in self.replaced.items()
        )
        point = f"{100 * self.harm:g} point{'' if self.harm == 0.01 else 's'}"
        meaning = {
            "used": f"The decision uses the map: replacing it costs more than {point} of accuracy.",
            "decorative": f"The map is decorative: replacing it costs less than {point} of "
            f"accuracy, so it does not show what the decision rests on.",
            "undecided": f"Undecided: {self.images} images cannot tell whether replacing the map "
            f"costs {point} of accuracy.",
        }[self.verdict]
        if self.verdict == "undecided" and not can_lose(self.accuracy, self.chance, self.harm):
            meaning = (
                f"Undecided: with guessing at {100 * self.chance:.1f}% the model has too little "
                "accuracy to lose, whether or not it uses the map."
            )
        return (
            f"{meaning} Accuracy {100 * self.accuracy:.1f}%; drop with the map replaced: {drops}."
        )


@torch.no_grad()
def map_reliance(
    predict: Callable[[Tensor, Tensor | None], Any],
    attend: Callable[[Tensor], Tensor],
    batches: Iterable[tuple[Tensor, Tensor]],
    *,
    seed: int = 0,
    harm: float = HARM,
    confidence: float = 0.95,
) -> Reliance:
    """Accuracy with each image's own map, its mean, it shuffled in space, and another image's map.

    `predict(x, map)` gives logits [B,C] (or an object with `.logits`) under the map [B,h,w], or
    under the model's own where it is None; `attend(x)` gives the model's own maps; `batches` gives
    (x, y). The other image is one of the same batch.

    The verdict, from the intervals of the three drops: `used` when one lies at or above
    `harm`, `decorative` when all lie below it, otherwise `undecided` (too few images). A model
    with an accuracy near chance has nothing to lose: `undecided`.
    """
    counts: dict[str, Tensor] = {}  # name -> [right, lost, gained], on the device
    images, classes = 0, 1
    last: Tensor | None = None  # the last map of the batch before
    for x, y in batches:
        index = torch.arange(images, images + len(x), device=x.device)
        images += len(x)
        maps = attend(x)
        replacements = {
            "mean": spatial_mean(maps),
            "shuffled": shuffled(maps, index, seed=seed),
            # A last batch of one image has no other: it takes the map before it.
            "another": from_another(maps, index, seed=seed)
            if len(maps) > 1 or last is None
            else last,
        }
        last = maps[-1:]
        own, classes = _correct(predict(x, None), y)
        for name, replacement in replacements.items():
            right, _ = _correct(predict(x, replacement), y)
            row = torch.stack([own.sum(), (own & ~right).sum(), (right & ~own).sum()])
            counts[name] = counts.get(name, 0) + row
    if not images:
        raise AibError("there are no images: batches is empty")
    totals = {name: [int(n) for n in row] for name, row in counts.items()}
    accuracy = totals["mean"][0] / images
    replaced = {
        name: paired_drop(accuracy, lost, gained, images, confidence=confidence)
        for name, (_, lost, gained) in totals.items()
    }
    found = verdict(replaced, harm)
    chance = 1 / classes
    if found == "decorative" and not can_lose(accuracy, chance, harm):
        found = "undecided"
    return Reliance(images, accuracy, replaced, harm, chance, found)


def points(share: float) -> str:
    """Percentage points, to the hundredth; a zero has no sign."""
    return f"{round(100 * share, 2) + 0.0:.2f}"


def can_lose(accuracy: float, chance: float, harm: float) -> bool:
    """Whether there is enough accuracy above chance for a loss to show."""
    return accuracy - chance >= ROOM * harm


def paired_drop(
    accuracy: float, lost: int, gained: int, images: int, *, confidence: float = 0.95
) -> Drop:
    """The drop when `lost` images turned wrong and `gained` turned right.

    With b lost and c gained of n, the drop is (b - c) / n and its variance
    ((b + c) - (b - c)^2 / n) / n^2. The interval adds 1/2 to b, to c and to both kinds of agreement
    (n + 2 in all; Agresti and Min, 2005), so that few images without a change do not give a
    degenerate interval.
    """
    if not 0 < confidence < 1:
        raise AibError(f"confidence must lie between 0 and 1, not {confidence}")
    n, b, c = images + 2, lost + 0.5, gained + 0.5
    centre = (b - c) / n
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    reach = z * math.sqrt((b + c) - (b - c) ** 2 / n) / n
    drop = (lost - gained) / images
    return Drop(accuracy - drop, drop, centre - reach, centre + reach)


def verdict(replaced: dict[str, Drop], harm: float = HARM) -> Verdict:
    """Used if one replacement is harmful, decorative if all are harmless."""
    if any(drop.low >= harm for drop in replaced.values()):
        return "used"
    return "decorative" if all(drop.high < harm for drop in replaced.values()) else "undecided"


def _correct(result: Any, y: Tensor) -> tuple[Tensor, int]:
    """Which predictions are right [B], and the number of classes."""
    logits = result if isinstance(result, Tensor) else result.logits
    if logits.ndim != 2 or len(logits) != len(y):
        raise AibError(f"predict must give [{len(y)},classes], not {list(logits.shape)}")
    return logits.argmax(dim=1) == y, logits.shape[1]
