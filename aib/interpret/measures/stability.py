"""Do maps stay put when a modification leaves the prediction unchanged? (The paper's Table 2.)"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from aib.figures.table import Table, number, table_of
from aib.interpret.maps import explain_batch
from aib.interpret.measure import Context, Measure, View
from aib.interpret.metrics.score import PRIMARY_TAU, TAUS, InterpretabilityScore
from aib.interpret.results import Stability, Study

TITLE = "Do maps stay put?"


class StabilityMeasure(Measure):
    """The model's own maps, on all images."""

    title = "modified images"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.decisions: dict[str, list[Tensor]] = {}  # "MODIFICATION correct" and "... consistent"
        self.scores: dict[str, InterpretabilityScore] = {}  # by modification

    @property
    def cost(self) -> int:
        """One pass for each modification."""
        return len(self.context.modifications)

    def update(self, view: View) -> None:
        """Decide on a batch under each modification, and compare the maps."""
        before = view.explanation
        for name, modify in self.context.modifications.items():
            x = view.modified(modify)
            after = explain_batch(self.context.model, x, deterministic=True)
            decisions = {
                "correct": (after.prediction == view.batch.labels).float(),
                "consistent": (after.prediction == before.prediction).float(),
            }
            for what, values in decisions.items():
                self.decisions.setdefault(f"{name} {what}", []).append(values)
            if before.map is not None and after.map is not None:
                score = InterpretabilityScore(seed=self.context.seed).to(x.device)
                score = self.scores.setdefault(name, score)
                score.update(before.map, after.map, before.prediction, after.prediction)

    def columns(self) -> dict[str, Tensor]:
        """Decisions and cosines under each modification."""
        found = {name: torch.cat(parts).cpu() for name, parts in self.decisions.items()}
        for name, score in self.scores.items():
            found[f"{name} cosine"] = torch.cat(score.cosine).cpu()
            found[f"{name} centred"] = torch.cat(score.centred).cpu()
        return found

    def fields(self) -> dict[str, Any]:
        """`stability`, by modification."""
        return {"stability": {name: self._result(name) for name in self.context.modifications}}

    def _result(self, name: str) -> Stability:
        parts = {what: self.decisions[f"{name} {what}"] for what in ("correct", "consistent")}
        shares = {
            what: 100 * float(torch.cat(part).double().mean()) for what, part in parts.items()
        }
        values = {"accuracy": shares["correct"], "prediction_consistent": shares["consistent"]}
        if name in self.scores:
            values |= {k: float(v) for k, v in self.scores[name].compute().items()}
        return Stability.from_flat(values)

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """The score at three thresholds, the centred cosine, and the paper's score."""
        rows = []
        for name in dict.fromkeys(name for study in studies.values() for name in study.stability):
            for label, study in studies.items():
                found = study.stability.get(name)
                if found and found.centred_mean:
                    row = {"modification": name, "run": label}
                    rows.append(row | _cells(found, study.paper.get(name)))
        note = (
            "Score: share of the images with unchanged prediction whose map keeps its cosine, with "
            "a 95% interval. A constant map scores 100: read it with the centred cosine, the "
            "contrast and the number of flat maps. The paper does not give its threshold."
        )
        return [table_of(TITLE, rows, note)]


def _cells(found: Stability, paper: float | None) -> dict[str, str]:
    assert found.centred_mean is not None
    scores = {f"score ≥{t:g}": number(found.score[t].value, 1) for t in TAUS}
    scores[f"score ≥{PRIMARY_TAU:g}"] = found.score[PRIMARY_TAU].format()
    return {
        **scores,
        "paper": number(paper, 2),
        f"centred ≥{PRIMARY_TAU:g}": number(found.centred[PRIMARY_TAU].value, 1),
        "mean r": number(found.centred_mean.value, 3),
        "same class %": number(found.prediction_consistent.value, 1),
        "contrast": number(found.contrast, 3),
        "flat": number(found.flat, 0),
    }
