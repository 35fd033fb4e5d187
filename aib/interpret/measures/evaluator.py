"""Would another classifier decide the same from the pixels that a map keeps?

An evaluator (`baselines/evaluator.py`) was trained on random masks and has never seen the maps it
judges. It sees the best 5 to 50% of each image's pixels, by the map, and noise elsewhere. A map
that encodes the class in its shape gains nothing here; one that selects evidence beats the
controls.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from aib.errors import AibWarning
from aib.evaluation.intervals import Estimate, FlatResults, mean_estimates
from aib.figures.table import Table, table_of
from aib.interpret.kinds import map_name
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measures.localisation import subset_size
from aib.interpret.metrics.faithfulness import ranked_pixels
from aib.interpret.metrics.reliance import HARM, ROOM, guessing
from aib.models.modes import evaluating

if TYPE_CHECKING:
    from aib.interpret.results import Study

SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)  # of the pixels that are kept
TITLE = "Would another classifier decide the same from these pixels?"


@dataclass(frozen=True)
class KeptCurve(FlatResults):
    """The evaluator's accuracy with the best pixels of one kind of map, in percent."""

    accuracy: dict[float, Estimate]  # by share of the pixels that are kept
    area: Estimate  # under the curve, divided by its width: a mean accuracy
    over_random: Estimate | None = None  # area minus that control's, points, paired by image
    over_centre: Estimate | None = None


@dataclass(frozen=True)
class EvaluatorResults:
    """What an evaluator decides from the pixels that each kind of map keeps."""

    run: str  # where the evaluator comes from
    accuracy: float  # with all pixels, in percent
    maps: dict[str, KeptCurve]  # by kind of map
    chance: float | None = None  # accuracy of guessing, in percent

    def weakness(self, images: int) -> str | None:
        """Why it cannot judge maps, measured on so many images; None if it can."""
        if self.chance is None or self.accuracy - self.chance >= 100 * ROOM * HARM:
            return None
        return (
            f"it gets {self.accuracy:.1f}% of {images:,} whole images right, and guessing would "
            f"get {self.chance:.1f}%"
        )


class EvaluatorMeasure(Measure):
    """An evaluator's decisions on the same images under every kind of map."""

    title = "evaluator"
    needs = frozenset({"evaluator"})
    subset = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.labels: list[Tensor] = []  # [B]
        self.whole: list[Tensor] = []  # bool [B]
        self.kept: dict[str, list[Tensor]] = {}  # by kind of map, bool [B,5]

    @property
    def cost(self) -> int:
        """One pass for each kind of map and share."""
        return len(self.context.makers) * len(SHARES)

    def update(self, view: View) -> None:
        """Decide on a batch as it is, and with the best pixels of each map.

        Tied pixels are kept in a random order of the seed.
        """
        x, labels = view.x, view.batch.labels
        self.labels.append(labels)
        self.whole.append(self._is_right(x, labels, torch.ones_like(x[:, 0])))
        counts = [round(share * x[0, 0].numel()) for share in SHARES]
        for kind, maps in view.maps.items():
            rank = ranked_pixels(x, maps, self.context.seed)[:, 0]  # [B,H,W]
            right = [self._is_right(x, labels, (rank < count).to(x)) for count in counts]
            self.kept.setdefault(kind, []).append(torch.stack(right, dim=1))

    def fields(self) -> dict[str, Any]:
        """`evaluator`: accuracies with their intervals."""
        labels, name = torch.cat(self.labels), self.context.evaluator_name
        found = EvaluatorResults(
            run=name,
            accuracy=100 * float(torch.cat(self.whole).double().mean()),
            maps=kept_curves(
                {kind: torch.cat(parts) for kind, parts in self.kept.items()},
                seed=self.context.seed,
            ),
            chance=100 * guessing(labels),
        )
        if weakness := found.weakness(len(labels)):
            warnings.warn(f"{name} cannot judge maps: {weakness}", AibWarning, stacklevel=2)
        return {"evaluator": found}

    @torch.no_grad()
    def _is_right(self, x: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        evaluator = self.context.evaluator
        assert evaluator is not None
        with evaluating(evaluator):
            logits = evaluator(x, deterministic=True, mask=mask).logits
        return logits.argmax(dim=1) == labels

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """Accuracy of an evaluator with the best pixels of each kind of map."""
        judged = {label: study.evaluator for label, study in studies.items() if study.evaluator}
        rows = [
            {
                "map": map_name(kind),
                "run": label,
                **{f"{100 * s:.0f}% kept": curve.accuracy[s].format() for s in SHARES},
                "area": curve.area.format(),
                "over random": (curve.over_random or Estimate()).format(to=" to ", sign="+"),
                "over centre": (curve.over_centre or Estimate()).format(to=" to ", sign="+"),
            }
            for label, found in judged.items()
            for kind, curve in found.maps.items()
        ]
        whole = dict.fromkeys(f"{one.run} ({one.accuracy:.1f}%)" for one in judged.values())
        note = (
            f"Accuracy of an evaluator, trained on random masks, with the map's best pixels and "
            f"noise elsewhere, on {subset_size(studies)} images. Area: under this curve, as a mean "
            "accuracy. Over: its difference to a control in points, paired by image. A map that "
            "encodes the class in its shape gains nothing here. Evaluator, with its accuracy on "
            f"whole images: {', '.join(whole)}."
        )
        return [table_of(TITLE, rows, note)]


def kept_curves(correct: Mapping[str, Tensor], *, seed: int = 0) -> dict[str, KeptCurve]:
    """Curves with intervals from what was right on the same images, bool [N,5] by kind of map.

    The difference to a control is taken per image before the bootstrap, so that what the images
    have in common cancels.
    """
    points = {kind: 100 * right.double().cpu() for kind, right in correct.items()}  # [N,5]
    shares = torch.tensor(SHARES, dtype=torch.float64)
    areas = {
        kind: torch.trapezoid(values, shares, dim=1) / (shares[-1] - shares[0])  # [N]
        for kind, values in points.items()
    }
    curves = {}
    for kind, values in points.items():
        controls = [c for c in ("random", "centre") if c in areas and c != kind]
        gains = [areas[kind] - areas[control] for control in controls]
        columns = torch.cat([values, torch.stack([areas[kind], *gains], dim=1)], dim=1)
        found = mean_estimates(columns, seed=seed)
        curves[kind] = KeptCurve(
            dict(zip(SHARES, found, strict=False)),
            found[len(SHARES)],
            **{
                f"over_{control}": gain
                for control, gain in zip(controls, found[len(SHARES) + 1 :], strict=True)
            },
        )
    return curves
