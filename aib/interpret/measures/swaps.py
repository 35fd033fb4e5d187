"""Does the decision use the map, and does the map give the class away?

A map that can be replaced without harm is decorative: it may look right, and shows nothing about
the decision. A map that is trained with its classifier can also encode the class in its shape:
replacing it costs accuracy although it shows nothing (Jethani et al., 2021). Two traces of it: the
map of another image of the same class does as well, and the map alone tells the class.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from aib.evaluation.error import wilson_interval
from aib.evaluation.intervals import Estimate
from aib.figures.table import NOTHING, Table, table_of
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measured import HARM, SWAPS, Encoding, Reliance
from aib.interpret.metrics.probe import jittered_gaussian, probe
from aib.interpret.metrics.swap import Decisions, Swapping, check_unchanged, drop_between, guessing
from aib.interpret.results import Study

REPLACEMENTS = ("mean", "shuffled", "another")


def map_reliance(decisions: Decisions, *, masked: bool = False) -> Reliance:
    """The drops of accuracy with each map's mean, with it shuffled, and with another image's, of
    those that were decided.

    Decisions that are not those under the maps raise an error.
    """
    check_unchanged(decisions.changed)
    own = decisions.right()
    names = [name for name in REPLACEMENTS if name in decisions.under]
    replaced = {name: drop_between(own, decisions.right(name)) for name in names}
    accuracy = float(own.double().mean())
    chance = guessing(decisions.labels)
    return Reliance(len(own), accuracy, replaced, HARM, chance, masked)


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


class SwapMeasure(Measure):
    """Accuracy with the map replaced, and the tests of encoding."""

    title = "replaced maps"
    needs = frozenset({"takes_map"})
    passes = 2  # partners are drawn from all images

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        strange = not context.model.takes_mask
        self.swapping = Swapping(self._predict, seed=context.seed, strange=strange)

    def _predict(self, x: Tensor, attention_map: Tensor) -> Tensor:
        return self.context.model(x, deterministic=True, attention_map=attention_map).logits

    def update(self, view: View) -> None:
        found = view.explanation
        assert found.map is not None
        self.swapping.first(view.batch, view.x, found.map, found.probabilities)

    def update_again(self, view: View) -> None:
        if view.first == 0:  # at once: otherwise replacing the map would measure nothing
            check_unchanged(self.swapping.stored["changed"])
        self.swapping.second(view.batch, view.x)

    def fields(self) -> dict[str, Any]:
        decisions = self.swapping.decisions()
        reliance = map_reliance(decisions, masked=self.context.model.takes_mask)
        return {"reliance": reliance, "encoding": map_encoding(decisions, seed=self.context.seed)}

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """What the swaps of maps cost, and how well the map alone tells the class."""
        rows, left_out = [], 0
        for label, study in studies.items():
            found = study.encoding
            if found is None or study.reliance is None:
                continue
            left_out += sum(found.left_out.values())
            same, other = (found.swaps[n].text if n in found.swaps else NOTHING for n in SWAPS)
            rows.append(
                {
                    "run": label,
                    "another image's map": study.reliance.replaced["another"].text,
                    "of the same class": same,
                    "of another class": other,
                    "follow the map / chance %": f"{found.follows.format(times=100)} / "
                    f"{100 * found.follows_chance:.1f}",
                    "blank image %": found.blank.format(times=100),
                    "probe: map %": found.probe["map"].format(times=100),
                    "probe: mask %": found.probe.get("mask", Estimate()).format(times=100),
                    "probe: centre %": found.probe["centre"].format(times=100),
                    "most frequent class %": f"{100 * found.probe_chance:.1f}",
                }
            )
        note = (
            "The first three: percentage points of accuracy lost with the map of another image, of "
            "one with the same predicted class, and of one with another (95% interval). Follow: "
            "under the map of another class, the prediction is that class. Blank: the model's "
            "accuracy with a blank image under the image's own map. Probe: accuracy of a small CNN "
            "that sees nothing but the map, the object's mask, or a centred Gaussian."
        )
        if left_out:
            note += f" {left_out:,} images without such a partner were left out of a swap."
        return [table_of("Does the map give the class away?", rows, note)]
