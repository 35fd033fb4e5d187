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

from aib.evaluation.intervals import Estimate, ratio_estimates
from aib.figures.overlay import FLAT
from aib.figures.table import Table, number, table_of
from aib.interpret.maps import explain_batch
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measured import Stability
from aib.interpret.metrics.checks import check_finite
from aib.interpret.metrics.columns import Columns
from aib.interpret.metrics.similarity import centred_cosine, cosine, min_max
from aib.interpret.results import Study

PRIMARY_TAU = 0.9
TAUS = (0.85, PRIMARY_TAU, 0.95)


def compare_maps(maps: Tensor, modified: Tensor) -> dict[str, Tensor]:
    """Maps [B,h,w] of images beside those of the modified images: one value per image, [B] each."""
    before, after = min_max(maps), min_max(modified)
    return {
        "cosine": cosine(before, after),
        "centred": centred_cosine(before, after),
        "contrast": before.contrast,
        "contrast_modified": after.contrast,
    }


def stability(
    correct: Tensor, consistent: Tensor, compared: Mapping[str, Tensor], *, seed: int = 0
) -> Stability:
    """The score of N images, and what it takes to judge it.

    `correct` [N]: whether the predictions for the modified images are right; `consistent` [N]:
    whether they are those for the images themselves, right or wrong. `compared` comes from
    `compare_maps`; without maps it is empty.

    - `score` by threshold: percentage of prediction-consistent images whose scaled maps have a
      cosine of at least that; flat against flat agrees, flat against not flat does not;
    - `centred`: the same with the centred cosine, over the images where it is defined;
    - `centred_mean`: the centred cosine's mean over those images, -1 to 1;
    - `centred_undefined`: prediction-consistent images with a flat map;
    - `contrast`: max - min, mean over all images; `flat` counts all images.
    """
    accuracy = 100 * float(correct.double().mean())
    if not compared:
        return Stability(accuracy, Estimate(100 * float(consistent.double().mean())))
    names = ("cosine", "centred", "contrast", "contrast_modified")
    raw, centred, contrast, contrast_modified = (compared[name].double() for name in names)
    check_finite(int((~(contrast + contrast_modified).isfinite()).sum()))
    consistent = consistent.double()
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
    found = ratio_estimates(parts, seed=seed)
    return Stability(
        accuracy,
        found["prediction_consistent"],
        score={tau: found[f"score_{tau:g}"] for tau in TAUS},
        centred={tau: found[f"centred_{tau:g}"] for tau in TAUS},
        centred_mean=found["centred_mean"],
        centred_undefined=int((consistent * centred.isnan()).sum()),
        contrast=float(contrast.mean()),
        contrast_modified=float(contrast_modified.mean()),
        flat=int((contrast.float() < FLAT).sum()),  # float32, as in `min_max`
        flat_modified=int((contrast_modified.float() < FLAT).sum()),
        images=len(contrast),
    )


TITLE = "Do maps stay put?"


class StabilityMeasure(Measure):
    """The model's own maps, on all images."""

    title = "modified images"
    quick = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.of_modification = {name: Columns() for name in context.modifications}

    def update(self, view: View) -> None:
        """Decide on a batch under each modification, and compare the maps."""
        before = view.explanation
        for name, modify in self.context.modifications.items():
            x = view.modified(modify)
            after = explain_batch(self.context.model, x, deterministic=True)
            found = {
                "correct": after.prediction == view.batch.labels,
                "consistent": after.prediction == before.prediction,
            }
            if before.map is not None and after.map is not None:
                found |= compare_maps(before.map, after.map)
            self.of_modification[name].add(**found)

    def fields(self) -> dict[str, Any]:
        found = {}
        for name, columns in self.of_modification.items():
            compared = columns.whole()
            decided = compared.pop("correct"), compared.pop("consistent")
            found[name] = stability(*decided, compared, seed=self.context.seed)
        return {"stability": found}

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
