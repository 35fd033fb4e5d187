"""What becomes of the decisions under other maps: is the map used, does it give the class away?"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from aib.evaluation.intervals import Estimate
from aib.figures.table import NOTHING, Table, table_of
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measured import SWAPS, Reliance
from aib.interpret.metrics.reliance import map_encoding, map_reliance
from aib.interpret.metrics.swap import Swapping, check_unchanged
from aib.interpret.results import Study


class SwapMeasure(Measure):
    """Accuracy with the map replaced, and the tests of encoding."""

    title = "replaced maps"
    needs = frozenset({"takes_map"})
    passes = 2  # partners are drawn from all images

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.swapping = Swapping(self._predict, seed=context.seed)

    def _predict(self, x: Tensor, attention_map: Tensor | None) -> Tensor:
        return self.context.model(x, deterministic=True, attention_map=attention_map).logits

    def update(self, view: View) -> None:
        """Store a batch's maps and decisions."""
        maps = view.explanation.map
        assert maps is not None
        known = "objects" in self.context.has
        batch = view.batch if known else replace(view.batch, objects=None)
        self.swapping.first(batch, view.x, self.context.model.applied_map(maps))

    def update_again(self, view: View) -> None:
        """Decide under the maps of partners."""
        if view.first == 0:  # at once: otherwise replacing the map would measure nothing
            check_unchanged(self.swapping.stored()["changed"])
        self.swapping.second(view.batch, view.x)

    def fields(self) -> dict[str, Any]:
        """`reliance` and `encoding`."""
        decisions = self.swapping.decisions()
        reliance = map_reliance(decisions, masked=self.context.model.takes_mask)
        return {
            "reliance": reliance,
            "encoding": map_encoding(decisions, seed=self.context.seed),
        }

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """What the swaps of maps cost, and how well the map alone tells the class."""
        rows, left_out = [], 0
        for label, study in studies.items():
            found = study.encoding
            if found is None or not isinstance(study.reliance, Reliance):
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
