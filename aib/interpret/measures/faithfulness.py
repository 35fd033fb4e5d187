"""Does the probability go where the map says? Deletion, insertion and ROAD of each kind of map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from aib.evaluation.intervals import Estimate, FlatResults, mean_estimates
from aib.figures.table import Table, number, table_of, without_empty_columns
from aib.interpret.kinds import map_name
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measures.localisation import subset_size
from aib.interpret.metrics.faithfulness import Curve, deletion_insertion
from aib.interpret.metrics.road import road
from aib.interpret.posthoc import completeness

if TYPE_CHECKING:
    from aib.interpret.results import Study

GAP = "completeness gap %"


@dataclass(frozen=True)
class Faithfulness(FlatResults):
    """Areas under the deletion, insertion and ROAD curves of one kind of map, 0 to 1."""

    deletion: Estimate
    insertion: Estimate
    deletion_curve: list[float] | None = None
    insertion_curve: list[float] | None = None
    completeness_gap: float | None = None  # of Integrated Gradients
    road_morf: Estimate | None = None  # most relevant pixels imputed first
    road_lerf: Estimate | None = None  # least relevant first
    road_morf_curve: list[float] | None = None  # at road_fractions
    road_lerf_curve: list[float] | None = None
    road_fractions: list[float] | None = None


class FaithfulnessMeasure(Measure):
    """The curves of every kind of map."""

    title = "deletion, insertion, ROAD"
    subset = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.curves: dict[str, list[dict[str, Curve]]] = {}
        self.sums: list[Tensor] = []  # what Integrated Gradients sum to, and should: [2,B] each

    @property
    def cost(self) -> int:
        """One for each kind of map."""
        return len(self.context.makers)

    def update(self, view: View) -> None:
        """Add a batch's curves."""
        predict, seed = partial(self.context.model, deterministic=True), self.context.seed
        for kind, maps in view.maps.items():
            curves = deletion_insertion(predict, view.x, maps, seed=seed)
            curves |= road(predict, view.x, maps, seed=seed)
            self.curves.setdefault(kind, []).append(curves)
            if kind == "integrated_gradients":
                self.sums.append(torch.stack(completeness(predict, view.x, maps)))

    def fields(self) -> dict[str, Any]:
        """`faithfulness`, by kind of map."""
        found = {kind: self._result(parts) for kind, parts in self.curves.items()}
        if self.sums:
            total, change = torch.cat(self.sums, dim=1).double()
            gap = float((total - change).abs().sum() / change.abs().sum())
            exact = found["integrated_gradients"]
            found["integrated_gradients"] = replace(exact, completeness_gap=gap)
        return {"faithfulness": found}

    def columns(self) -> dict[str, Tensor]:
        """The area under each curve."""
        return {
            f"{kind} {name}": area
            for kind, parts in self.curves.items()
            for name, area in _areas(parts).items()
        }

    def _result(self, parts: list[dict[str, Curve]]) -> Faithfulness:
        areas = _areas(parts)
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
                GAP: number(found.completeness_gap, 1, 100),
            }
            for label, study in studies.items()
            for kind, found in study.faithfulness.items()
        ]
        note = (
            f"On {subset_size(studies)} images; missing pixels are blurred. ROAD fills them in "
            "from their neighbours, with a little noise."
        )
        if any(row[GAP] != "-" for row in rows):
            note += (
                f" {GAP}: how far the sum of Integrated Gradients is from the change of the class "
                "score between the mean colour and the image, relative to that change."
            )
        title = "Does the probability go where the map says?"
        return [without_empty_columns(table_of(title, rows, note))]


def _area(found: Estimate | None) -> str:
    return (found or Estimate()).format(3)


def _areas(parts: list[dict[str, Curve]]) -> dict[str, Tensor]:
    """The area under each image's curve [N], by the curve's name."""
    return {name: torch.cat([part[name].area for part in parts]) for name in parts[0]}
