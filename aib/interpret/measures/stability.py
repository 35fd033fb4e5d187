"""The interpretability score: do maps stay the same when a modification keeps the prediction?

The paper gives neither a threshold nor the normalisation of its cosine. Here maps are min-max
scaled, the primary threshold is 0.9, and 0.85 and 0.95 are always reported too.

A constant map scores 100, because nothing in it can move. So the score comes with the centred
cosine, the maps' contrast and the number of flat maps.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from aib.errors import AibError
from aib.figures.scale import FLAT
from aib.figures.table import Table, number, table_of
from aib.interpret.maps import explain_batch
from aib.interpret.measure import Context, Measure, View
from aib.interpret.metrics.metric import BootstrapMetric
from aib.interpret.metrics.similarity import centred_cosine, cosine, min_max
from aib.interpret.results import Stability, Study

PRIMARY_TAU = 0.9
TAUS = (0.85, PRIMARY_TAU, 0.95)
PER_IMAGE = ("cosine", "centred", "consistent", "contrast", "contrast_modified")  # states


class InterpretabilityScore(BootstrapMetric):
    """Share of prediction-consistent images whose maps agree, and what it takes to judge it.

    `compute` returns scalar tensors by name. With an interval (`NAME_low`, `NAME_high`):

    - `score_TAU`: percentage of prediction-consistent images (same argmax, right or wrong) whose
      scaled maps have a cosine of at least TAU; flat against flat agrees, flat against not flat
      does not;
    - `centred_TAU`: the same with the centred cosine, over the images where it is defined;
    - `centred_mean`: the centred cosine's mean over those images, -1 to 1;
    - `prediction_consistent`: percentage of all images.

    Without: `images`, `centred_undefined` (prediction-consistent images with a flat map),
    `contrast` and `contrast_modified` (max - min, mean over all images), `flat` and
    `flat_modified` (counts over all images). A metric over no image at all is NaN.
    """

    cosine: list[Tensor]
    centred: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # One float per image: a process without data contributes an empty float tensor.
        for name in PER_IMAGE:
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(
        self, maps: Tensor, maps_modified: Tensor, predictions: Tensor, predictions_modified: Tensor
    ) -> None:
        """Add maps [B,h,w] and predicted classes [B] of the images and of the modified images."""
        if not predictions.shape == predictions_modified.shape == maps.shape[:1]:
            raise AibError(f"there must be one predicted class for each of the {len(maps)} maps")
        before, after = min_max(maps), min_max(maps_modified)
        self.count_broken(before.contrast + after.contrast)
        values = (
            cosine(before, after),
            centred_cosine(before, after),
            (predictions == predictions_modified).float(),
            before.contrast,
            after.contrast,
        )
        for name, column in zip(PER_IMAGE, values, strict=True):
            getattr(self, name).append(column)

    def compute(self) -> dict[str, Tensor]:
        """The values named above."""
        raw, centred, consistent, contrast, contrast_modified = map(self.per_image, PER_IMAGE)
        defined = consistent * ~centred.isnan()
        every = torch.ones_like(consistent)
        # Each metric is a sum over images divided by another: the counted ones, among which.
        parts: dict[str, tuple[Tensor, Tensor]] = {}
        for tau in TAUS:
            least = tau - 1e-6  # in float32 a cosine of exactly 0.9 may be below 0.9
            parts[f"score_{tau:g}"] = (100 * consistent * (raw >= least), consistent)
            parts[f"centred_{tau:g}"] = (100 * defined * (centred >= least), defined)
        parts["centred_mean"] = (defined * centred.nan_to_num(), defined)
        parts["prediction_consistent"] = (100 * consistent, every)
        return {
            **self.ratios(parts),
            "centred_undefined": (consistent * centred.isnan()).sum(),
            "contrast": contrast.mean(),
            "contrast_modified": contrast_modified.mean(),
            "flat": (contrast.float() < FLAT).sum(),  # float32, as in `min_max`
            "flat_modified": (contrast_modified.float() < FLAT).sum(),
            "images": torch.tensor(len(contrast), device=contrast.device),
        }


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
