"""The verdict on a model's map, with its reasons: one rule for every table, page and command.

decorative  no counted replacement of the map costs a point of accuracy
encoding    another class's map costs accuracy, the same class's much less, and the map gives the
            class away: it may hold the answer instead of the evidence
faithful    maps of other images cost accuracy, not encoding, and by an evaluator that never saw the
            map its pixels are better evidence than the centre and than random ones
used        replacing the map costs accuracy; more was not shown
undecided   too few images, or too little accuracy to lose
"""

from dataclasses import dataclass
from typing import Literal

from aib.errors import counted
from aib.evaluation.intervals import Estimate
from aib.interpret.metrics.encoding import SWAPS, Encoding
from aib.interpret.metrics.reliance import ROOM, Drop, Reliance, points

Name = Literal["faithful", "used", "encoding", "decorative", "undecided"]

SAME_MAP = 0.01  # masks that differ by less from image to image, on average, are one mask
STRANGE = {"mean", "shuffled"}  # replacements unlike any map that the classifier was trained with
MEANING = {
    "faithful": "The map is faithful: the decision uses it, and what it marks is evidence",
    "used": "The decision uses the map",
    "encoding": "The map encodes the class: it hands over the answer, not the evidence",
    "decorative": "The map is decorative: it does not show what the decision rests on",
    "undecided": "Whether the decision uses the map is open",
}
REPLACED = {
    "mean": "its mean",
    "shuffled": "shuffled in space",
    "another": "another image's",
    "same_class": "one of the same class",
    "other_class": "one of another class",
}


@dataclass(frozen=True)
class Verdict:
    """A word for the map, and the sentences that justify it."""

    name: Name
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """The verdict and its reasons in sentences."""
        return " ".join(f"{sentence}." for sentence in (MEANING[self.name], *self.reasons))

    @property
    def warning(self) -> str | None:
        """What to tell somebody who looks at the map; None where the map may be taken seriously."""
        return MEANING[self.name] if self.name in ("decorative", "encoding") else None


def judge(
    reliance: Reliance,
    encoding: Encoding | None = None,
    *,
    over_centre: Estimate | None = None,
    over_random: Estimate | None = None,
    weakness: str | None = None,
) -> Verdict:
    """The verdict from the drops of accuracy, the tests of encoding and an evaluator.

    `over_centre` and `over_random`: how much better the map's pixels are than those controls, by
    the evaluator's area under the curve; `weakness`: why that evaluator cannot judge. Whatever was
    not measured limits the verdict.
    """
    harm, point = reliance.harm, counted(100 * reliance.harm, "point")
    # A masked model has only ever seen masks that belong to an image: no others count.
    drops = {"another": reliance.replaced["another"]} if reliance.masked else reliance.replaced
    drops = drops | (encoding.swaps if encoding else {})
    costs = _costs(reliance, drops)
    costly = {name for name, drop in drops.items() if drop.low >= harm}
    if reliance.masked and encoding and encoding.variation < SAME_MAP and not costly:
        same = (
            f"It is the same map for every image: two differ by {encoding.variation:.4f} on average"
        )
        return Verdict("decorative", (same, costs))
    if not costly:
        if reliance.accuracy - reliance.chance < ROOM * harm:
            guess = f"Guessing gives {100 * reliance.chance:.1f}%: too little accuracy to lose"
            return Verdict("undecided", (guess, costs))
        if all(drop.high < harm for drop in drops.values()):
            cheap = f"Replacing it costs less than {point} of accuracy"
            return Verdict("decorative", (cheap, costs))
        few = f"{reliance.images} images cannot tell whether replacing it costs {point} of accuracy"
        return Verdict("undecided", (few, costs))
    used = (f"Replacing it costs more than {point} of accuracy", costs)
    encodes, why = _encodes(encoding, harm)
    if encodes:
        return Verdict("encoding", (costs, *why))
    if encodes is None:
        return Verdict("used", (*used, *why))
    if costly <= STRANGE:
        strange = "Only a mean or shuffled map is shown to cost that, not another image's"
        return Verdict("used", (*used, *why, strange))
    faithful, evidence = _evidence(over_centre, over_random, weakness)
    return Verdict("faithful" if faithful else "used", (*used, *why, evidence))


def _encodes(encoding: Encoding | None, harm: float) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the map hands over the class, and why; None where that was not tested."""
    same, other = (encoding.swaps.get(name) if encoding else None for name in SWAPS)
    if encoding is None or same is None or other is None:
        return None, ("Whether the map encodes the class was not tested",)
    costs = f"A map of another class costs {points(other.drop)} points, of the same class "
    costs += points(same.drop)
    if other.low < harm or same.drop >= other.drop / 2 or same.high >= other.low:
        return False, (f"{costs}: the difference does not speak for a map that encodes the class",)
    signs = _signs(encoding)
    if not signs:
        return False, (f"{costs}, but the map alone does not tell the class",)
    return True, (costs, *signs)


def _signs(encoding: Encoding) -> tuple[str, ...]:
    """In which ways the map alone tells the class, beyond the intervals."""
    signs = []
    alone, reference = encoding.probe["map"], encoding.probe[encoding.reference]
    if _above(alone, reference.high):
        name = {"mask": "the object's mask", "centre": "a centred Gaussian"}[encoding.reference]
        signs.append(
            f"The map alone tells the class of {_percent(alone)} of the images, "
            f"{name} of {_percent(reference)}"
        )
    chance = encoding.follows_chance
    # Of two classes chance is a half, and nothing is more than twice as often.
    if _above(encoding.follows, min(2 * chance, (1 + chance) / 2)):
        signs.append(
            f"{_percent(encoding.follows)} of the predictions follow the map's class instead of "
            f"the image's; chance is {100 * chance:.1f}%"
        )
    return tuple(signs)


def _evidence(
    centre: Estimate | None, random: Estimate | None, weakness: str | None
) -> tuple[bool, str]:
    """Whether an evaluator finds more evidence in the map than in both controls."""
    if centre is None or random is None:
        return False, 'No evaluator was used, and without one the verdict is at most "used"'
    if weakness:
        return False, f"The evaluator could not judge the map: {weakness}"
    over = {"centre": centre, "random": random}
    worse = [name for name, found in over.items() if not _above(found, 0.0)]
    if worse:
        less = all((high := over[name].high) is not None and high < 0 for name in worse)
        finds = "finds less" if less else "is not shown to find more"
        return False, f"An evaluator {finds} evidence there than in {' and '.join(worse)} pixels"
    return True, "An evaluator that never saw it prefers its pixels to centre and random ones"


def _above(found: Estimate, bound: float | None) -> bool:
    return found.low is not None and bound is not None and found.low > bound


def _costs(reliance: Reliance, drops: dict[str, Drop]) -> str:
    parts = "; ".join(f"{REPLACED[name]} {drop.text}" for name, drop in drops.items())
    return f"Accuracy {100 * reliance.accuracy:.1f}%; points lost with another map: {parts}"


def _percent(found: Estimate) -> str:
    return "?" if found.value is None else f"{100 * found.value:.1f}%"
