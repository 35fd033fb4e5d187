"""Does the decision use the map? The accuracy that is lost when the map is replaced.

A map that can be replaced without harm is decorative: it may look right, and shows nothing about
the decision.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from torch import Tensor

from aib.interpret.metrics.swap import Decisions, check_unchanged

# A drop of accuracy below one point counts as no harm: a choice, named in every verdict.
HARM = 0.01
ROOM = 5  # accuracy above chance, in multiples of the harm, below which there is nothing to lose
REPLACEMENTS = ("mean", "shuffled", "another")


@dataclass(frozen=True)
class Drop:
    """Accuracy with the model's own maps minus that with the replaced ones, with its interval."""

    accuracy: float  # with the replaced maps
    drop: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """In percentage points, with the interval."""
        return f"{points(self.drop)} ({points(self.low)} to {points(self.high)})"


@dataclass(frozen=True)
class Reliance:
    """Accuracy with the maps replaced (shares, 0 to 1)."""

    images: int
    accuracy: float  # with the model's own maps
    replaced: dict[str, Drop]  # by their mean, shuffled in space, by another image's
    harm: float  # the least drop that counts
    chance: float  # accuracy of guessing the most frequent class
    masked: bool = False  # the model masks pixels, and was trained with its own masks only


def map_reliance(decisions: Decisions, *, masked: bool = False) -> Reliance:
    """The drops of accuracy with each map's mean, with it shuffled, and with another image's.

    Decisions that are not those under the maps raise an error.
    """
    check_unchanged(decisions.changed)
    own = decisions.right()
    replaced = {name: drop_between(own, decisions.right(name)) for name in REPLACEMENTS}
    accuracy = float(own.double().mean())
    chance = guessing(decisions.labels)
    return Reliance(len(own), accuracy, replaced, HARM, chance, masked)


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


def points(share: float) -> str:
    """Percentage points, to the hundredth; a zero has no sign."""
    return f"{round(100 * share, 2) + 0.0:.2f}"
