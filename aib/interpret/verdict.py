"""The verdict on a model's map, with its reasons: one rule for every table, page and command.

decorative  no counted replacement of the map costs a point of accuracy
encoding    the map gives the class away, by a probe, by what the predictions follow under foreign
            maps, or by the transplant; where the transplant clears the map, only by the last
faithful    maps of other images cost accuracy, the transplant clears the map, and by an evaluator
            that never saw it its pixels are better evidence than the centre and than random ones;
            the best pixels of a map that is no mask also keep most of the predictions
used        replacing the map costs accuracy; more was not shown
undecided   too few images, or too little accuracy to lose
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from aib.errors import counted
from aib.evaluation.intervals import Estimate
from aib.interpret.measured import (
    KEPT,
    ROOM,
    SWAPS,
    Drop,
    Encoding,
    EvaluatorResults,
    Reliance,
    Transplant,
    points,
)

Name = Literal["faithful", "used", "encoding", "decorative", "undecided"]

SAME_MAP = 0.01  # masks that differ by less from image to image, on average, are one mask
KEPT_AT_LEAST = 80  # percent
FOLLOWS = "With another image's object under the map, the decision follows the pixels"
PREFERS = "An evaluator that never saw it prefers its pixels to centre and random ones"
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


@dataclass(frozen=True)
class StoredVerdict:
    """The verdict in a run's folder, and on what it was measured."""

    verdict: Verdict
    measured: str

    @property
    def line(self) -> str:
        """Short form, for captions."""
        return f"map: {self.verdict.name} ({self.measured})"

    @property
    def text(self) -> str:
        """What the verdict means, and what it was measured on."""
        return f"{MEANING[self.verdict.name]} ({self.measured})."

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types."""
        return asdict(self.verdict) | {"measured": self.measured}


def judge(
    reliance: Reliance,
    encoding: Encoding | None = None,
    transplant: Transplant | None = None,
    evaluator: EvaluatorResults | None = None,
) -> Verdict:
    """The verdict from the drops of accuracy, the tests of encoding, the transplant and an
    evaluator. Whatever was not measured limits it."""
    harm, point = reliance.harm, counted(100 * reliance.harm, "point")
    # A masked model has only ever seen masks that belong to an image: no others count.
    drops = {"another": reliance.replaced["another"]} if reliance.masked else reliance.replaced
    drops = drops | (encoding.swaps if encoding else {})
    costs = _costs(reliance, drops)
    costly = {name for name, drop in drops.items() if drop.low >= harm}
    if not costly:
        name, reason = _unused(reliance, encoding, drops, point)
        return Verdict(name, (reason, costs))
    if signs := _signs(encoding, transplant, harm):
        return Verdict("encoding", (costs, *signs))
    used = f"Replacing it costs more than {point} of accuracy"
    missing = [
        text
        for text in (
            "Only a mean or shuffled map is shown to cost that, not another image's"
            if costly <= STRANGE
            else None,
            _not_cleared(encoding, transplant),
            _no_evidence(evaluator),
            None if reliance.masked else _not_kept(evaluator),
        )
        if text
    ]
    if missing:
        return Verdict("used", (used, costs, *missing))
    return Verdict("faithful", (used, costs, FOLLOWS, PREFERS))


def _unused(
    reliance: Reliance, encoding: Encoding | None, drops: Mapping[str, Drop], point: str
) -> tuple[Name, str]:
    """The verdict where no replacement is shown to cost accuracy, and why."""
    harm = reliance.harm
    if reliance.accuracy - reliance.chance < ROOM * harm:
        guess = f"Guessing gives {100 * reliance.chance:.1f}%: too little accuracy to lose"
        return "undecided", guess
    if reliance.masked and encoding and encoding.variation < SAME_MAP:
        same = f"two differ by {encoding.variation:.4f} on average"
        return "decorative", f"It is the same map for every image: {same}"
    if all(drop.high < harm for drop in drops.values()):
        return "decorative", f"Replacing it costs less than {point} of accuracy"
    few = f"{reliance.images} images cannot tell whether replacing it costs {point} of accuracy"
    return "undecided", few


def _signs(
    encoding: Encoding | None, transplant: Transplant | None, harm: float
) -> tuple[str, ...]:
    """Why the map is said to hand over the class; empty where nothing shows it."""
    if transplant and (found := transplant.encoded):
        return (
            f"With another image's object under the map, {_percent(found.map)} of the predictions "
            f"follow the map and {_percent(found.pixels)} the pixels; chance is "
            f"{_percent(found.chance)}",
        )
    if encoding is None or (transplant and transplant.cleared):
        return ()
    signs = []
    alone, silhouette = encoding.probe["map"], encoding.probe.get("mask")
    if silhouette and _above(alone, silhouette.high):
        signs.append(_probe_text(alone, silhouette, "the object's mask"))
    same, other = (encoding.swaps.get(name) for name in SWAPS)
    if not same or not other:
        return tuple(signs)
    if other.low >= harm and same.drop < other.drop / 2 and same.high < other.low:
        if not silhouette and _above(alone, encoding.probe["centre"].high):
            signs.append(_probe_text(alone, encoding.probe["centre"], "a centred Gaussian"))
        chance = encoding.follows_chance
        # Of two classes chance is a half, and nothing is more than twice as often.
        if _above(encoding.follows, min(2 * chance, (1 + chance) / 2)):
            signs.append(
                f"{_percent(encoding.follows)} of the predictions follow the class of another "
                f"image's map; chance is {100 * chance:.1f}%"
            )
        if signs:
            signs.insert(
                0,
                f"A map of another class costs {points(other.drop)} points, one of the same class "
                f"{points(same.drop)}",
            )
    return tuple(signs)


def _probe_text(alone: Estimate, reference: Estimate, name: str) -> str:
    return (
        f"A small network predicts the class of {_percent(alone)} of the images from the map "
        f"alone, and of {_percent(reference)} from {name}"
    )


def _not_cleared(encoding: Encoding | None, transplant: Transplant | None) -> str | None:
    """What the tests of encoding leave open; None where they clear the map."""
    if encoding is None:
        return "Whether the map encodes the class was not tested"
    if transplant is None:
        return "The transplant of objects was not measured"
    if not transplant.boxes.measured:
        return f"Only {transplant.boxes.pairs} pairs of images fit for a transplant of objects"
    if not transplant.cleared:
        return "The transplant does not show that the decision follows the pixels under the map"
    return None


def _no_evidence(evaluator: EvaluatorResults | None) -> str | None:
    """Why no evaluator finds more evidence in the map than in both controls; None if it does."""
    curve = evaluator and evaluator.maps.get("own")
    if not evaluator or not curve or curve.over_centre is None or curve.over_random is None:
        return 'No evaluator was used, and without one the verdict is at most "used"'
    if evaluator.weakness:
        return f"The evaluator could not judge the map: {evaluator.weakness}"
    over = {"centre": curve.over_centre, "random": curve.over_random}
    worse = [name for name, found in over.items() if not _above(found, 0.0)]
    if not worse:
        return None
    less = all((high := over[name].high) is not None and high < 0 for name in worse)
    finds = "finds less" if less else "is not shown to find more"
    return f"An evaluator {finds} evidence there than in {' and '.join(worse)} pixels"


def _not_kept(evaluator: EvaluatorResults | None) -> str | None:
    """Why the map's best pixels do not carry the decision; None if they do."""
    curve = evaluator and evaluator.maps.get("own")
    if not evaluator or not curve or evaluator.weakness:
        return None  # said already
    kept = curve.kept.get(KEPT, Estimate()).value
    if kept is None:
        return "How many predictions its best pixels keep was not measured"
    if kept >= KEPT_AT_LEAST:
        return None
    return (
        f"Its best pixels keep {kept:.1f}% of the model's predictions for an evaluator, and "
        f"{KEPT_AT_LEAST}% are needed"
    )


def _above(found: Estimate, bound: float | None) -> bool:
    return found.low is not None and bound is not None and found.low > bound


def _costs(reliance: Reliance, drops: dict[str, Drop]) -> str:
    parts = "; ".join(f"{REPLACED[name]} {drop.text}" for name, drop in drops.items())
    return f"Accuracy {100 * reliance.accuracy:.1f}%; points lost with another map: {parts}"


def _percent(found: Estimate | None) -> str:
    return "?" if not found or found.value is None else f"{100 * found.value:.1f}%"
