"""Does the decision use the map? The accuracy that is lost when the map is replaced.

A map that can be replaced without harm is decorative: it may look right, and shows nothing about
the decision.
"""

import math
from statistics import NormalDist

from torch import Tensor

from aib.evaluation.intervals import Estimate, wilson_interval
from aib.interpret.measured import HARM, SWAPS, Drop, Encoding, Reliance
from aib.interpret.metrics.probe import jittered_gaussian, probe
from aib.interpret.metrics.swap import Decisions, check_unchanged

REPLACEMENTS = ("mean", "shuffled", "another")


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
