"""Does the probability go where the map says? Deletion, insertion and ROAD of each kind of map."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aib.evaluation.intervals import Estimate, mean_estimates
from aib.figures.table import Table, table_of, without_empty_columns
from aib.interpret.measure import Context, Measure, View, map_name, subset_size
from aib.interpret.measured import Faithfulness
from aib.interpret.metrics.faithfulness import Curve, deletion_insertion, road
from aib.interpret.results import Study
from aib.models.types import Output


class FaithfulnessMeasure(Measure):
    """The curves of every kind of map."""

    title = "deletion, insertion, ROAD"
    subset = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.curves: dict[str, list[dict[str, Curve]]] = {}

    def update(self, view: View) -> None:
        """Add a batch's curves."""
        seed, x = self.context.seed, view.x
        decide = partial(self.context.model, deterministic=True)
        whole = decide(x)  # the same for all curves

        def predict(images: Tensor) -> Output:
            return whole if images is x else decide(images)

        for kind, maps in view.maps.items():
            curves = deletion_insertion(predict, x, maps, seed=seed)
            curves |= road(predict, x, maps, seed=seed)
            self.curves.setdefault(kind, []).append(curves)

    def fields(self) -> dict[str, Any]:
        """`faithfulness`, by kind of map."""
        return {"faithfulness": {k: self._result(parts) for k, parts in self.curves.items()}}

    def _result(self, parts: list[dict[str, Curve]]) -> Faithfulness:
        areas = {name: torch.cat([part[name].area for part in parts]) for name in parts[0]}  # [N]
        means = mean_estimates(torch.stack([*areas.values()], dim=1), seed=self.context.seed)
        found: dict[str, Any] = dict(zip(areas, means, strict=True))
        for name in areas:
            curve = torch.cat([part[name].values for part in parts]).mean(0)
            found[f"{name}_curve"] = curve.tolist()
        fractions = parts[0]["road_morf"].fractions.tolist()
        return Faithfulness(**found, road_fractions=[round(f, 6) for f in fractions])

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """Areas under the curves by kind of map."""
        rows = [
            {
                "map": map_name(kind),
                "run": label,
                "deletion (low is good)": found.deletion.format(3),
                "insertion (high is good)": found.insertion.format(3),
                "ROAD, most relevant first (low is good)": _area(found.road_morf),
                "ROAD, least relevant first (high is good)": _area(found.road_lerf),
            }
            for label, study in studies.items()
            for kind, found in study.faithfulness.items()
        ]
        note = (
            f"On {subset_size(studies)} images; missing pixels are blurred. ROAD fills them in "
            "from their neighbours, with a little noise."
        )
        title = "Does the probability go where the map says?"
        return [without_empty_columns(table_of(title, rows, note))]


def _area(found: Estimate | None) -> str:
    return (found or Estimate()).format(3)
