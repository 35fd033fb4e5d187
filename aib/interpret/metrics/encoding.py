"""Does the map give the class away? A map may write the answer instead of showing the evidence.

A map that is trained together with its classifier can encode the class in its shape: replacing it
then costs accuracy although it shows nothing (Jethani et al., 2021). Two traces of it: the map of
another image of the same class does as well as the own one, and the map alone tells the class.
"""

from dataclasses import dataclass

from torch import Tensor

from aib.evaluation.intervals import Estimate, wilson_interval
from aib.interpret.metrics.probe import jittered_gaussian, probe
from aib.interpret.metrics.reliance import Drop, drop_between, guessing
from aib.interpret.metrics.swap import Decisions

SWAPS = ("same_class", "other_class")


@dataclass(frozen=True)
class Encoding:
    """What the map says about the class (shares, 0 to 1)."""

    swaps: dict[str, Drop]  # map of an image of the same, of another predicted class; may lack one
    left_out: dict[str, int]  # images that have no such partner
    follows: Estimate  # under a map of another class: the prediction is the class of that map
    follows_chance: float
    blank: Estimate  # accuracy with a blank image under the image's own map
    probe: dict[str, Estimate]  # accuracy of a small CNN that sees: map, mask, centre
    probe_chance: float  # of naming the most frequent class
    probe_images: int  # scored
    variation: float  # mean absolute difference between an image's map and another image's

    @property
    def reference(self) -> str:
        """What the probe on the map has to beat: silhouettes where there are masks."""
        return "mask" if "mask" in self.probe else "centre"


def map_encoding(decisions: Decisions, *, seed: int = 0) -> Encoding:
    """Swaps within and between predicted classes, and the probe; labels are the true classes."""
    own, swaps, left_out = decisions.right(), {}, {}
    for name in SWAPS:
        has = getattr(decisions.partners, name) >= 0
        left_out[name] = int((~has).sum())
        if bool(has.any()):
            swaps[name] = drop_between(own[has], decisions.right(name)[has])
    follows, chance = _following(decisions)
    probed, truth = _probes(decisions, seed)
    partner = decisions.partners.another.to(decisions.maps.device)
    return Encoding(
        swaps=swaps,
        left_out=left_out,
        follows=follows,
        follows_chance=chance,
        blank=share(decisions.right("blank")),
        probe={name: share(said == truth) for name, said in probed.items()},
        probe_chance=guessing(truth),
        probe_images=len(truth),
        variation=float((decisions.maps - decisions.maps[partner]).abs().mean()),
    )


def share(hits: Tensor) -> Estimate:
    """The share of True in bool [n], with Wilson's interval."""
    low, high = wilson_interval(int(hits.sum()), len(hits))
    return Estimate(float(hits.double().mean()), low / 100, high / 100)


def _following(decisions: Decisions) -> tuple[Estimate, float]:
    """How often the prediction under another class's map is that class, and chance.

    Chance is 1 / classes, or more where predictions favour frequent classes: then it is what the
    same predictions would score if they were shuffled among the images.
    """
    partner = decisions.partners.other_class
    has = partner >= 0
    after, wanted = decisions.under["other_class"][has], decisions.own[partner[has]]
    guess = 1 / decisions.num_classes
    if not len(after):
        return Estimate(), guess
    counts = [one.bincount(minlength=decisions.num_classes) for one in (after, wanted)]  # [C] each
    shuffled = int((counts[0] * counts[1]).sum()) / len(after) ** 2
    return share(after == wanted), max(guess, shuffled)


def _probes(decisions: Decisions, seed: int) -> tuple[dict[str, Tensor], Tensor]:
    """What the probe says of each kind of map, and the truth, [n] each."""
    maps, index = decisions.maps, decisions.index.to(decisions.maps.device)
    size = (maps.shape[1], maps.shape[2])
    seen = {"map": maps, "centre": jittered_gaussian(index, size, seed=seed)}
    if decisions.objects is not None:
        seen["mask"] = decisions.objects
    said, truth = {}, decisions.labels
    for name, one in seen.items():
        said[name], truth = probe(one, decisions.labels, index, decisions.num_classes, seed=seed)
    return said, truth
