"""Does the probability go where the map says? Deletion, insertion and ROAD of each kind of map."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aib.evaluation.intervals import Estimate, mean_estimates
from aib.figures.table import Table, table_of, without_empty_columns
from aib.interpret.measure import Measure, View, map_name, subset_size
from aib.interpret.measured import Faithfulness
from aib.interpret.metrics.faithfulness import deletion_insertion, road
from aib.interpret.results import Study
from aib.models.types import Output

AREAS = ("deletion", "insertion", "road_morf", "road_lerf")


class FaithfulnessMeasure(Measure):
    """The curves of every kind of map."""

    title = "deletion, insertion, ROAD"
    subset = True

    def update(self, view: View) -> None:
        seed, x = self.context.seed, view.x
        decide = partial(self.context.model, deterministic=True)
        whole = decide(x)  # the same for all curves

        def predict(images: Tensor) -> Output:
            return whole if images is x else decide(images)

        for kind, maps in view.maps.items():
            curves = deletion_insertion(predict, x, maps, seed=seed)
            curves |= road(predict, x, maps, seed=seed)
            areas = [curves[name].area for name in AREAS]
            self.columns.add(**{kind: torch.stack(areas, dim=1)})

    def fields(self) -> dict[str, Any]:
        found = {}
        for kind, areas in self.columns.whole().items():  # [N,4]
            means = mean_estimates(areas, seed=self.context.seed)
            found[kind] = Faithfulness(**dict(zip(AREAS, means, strict=True)))
        return {"faithfulness": found}

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
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
