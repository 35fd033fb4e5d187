"""Would another classifier decide the same from the pixels that a map keeps?

An evaluator (`baselines/evaluator.py`) was trained on random masks and has never seen the maps it
judges. It sees the best 5 to 50% of each image's pixels, by the map, and noise elsewhere. A map
that encodes the class in its shape gains nothing here; one that selects evidence beats the
controls.
"""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from aib.errors import AibWarning
from aib.evaluation.intervals import Estimate, mean_estimates, ratio_estimates
from aib.figures.table import Table, number, table_of
from aib.interpret.measure import Context, Measure, View, map_name, subset_size
from aib.interpret.measured import KEPT, EvaluatorResults, KeptCurve
from aib.interpret.metrics.columns import Columns
from aib.interpret.metrics.faithfulness import ranked_pixels
from aib.interpret.metrics.swap import guessing
from aib.interpret.results import Study
from aib.models.modes import evaluating

SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)  # of the pixels that are kept
TITLE = "Would another classifier decide the same from these pixels?"


class EvaluatorMeasure(Measure):
    """An evaluator's decisions on the same images under every kind of map."""

    title = "evaluator"
    needs = frozenset({"evaluator"})
    subset = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.kept = Columns()  # [B,5] by kind of map, the evaluator's with its best pixels

    def update(self, view: View) -> None:
        """Decide on a batch as it is, and with the best pixels of each map.

        Tied pixels are kept in a random order of the seed.
        """
        x = view.x
        self.columns.add(
            labels=view.batch.labels,
            model=view.explanation.prediction,
            whole=self._decide(x, torch.ones_like(x[:, 0])),
        )
        counts = [round(share * x[0, 0].numel()) for share in SHARES]
        for kind, maps in view.maps.items():
            rank = ranked_pixels(x, maps, self.context.seed)[:, 0]  # [B,H,W]
            found = [self._decide(x, (rank < count).to(x)) for count in counts]
            self.kept.add(**{kind: torch.stack(found, dim=1)})

    def fields(self) -> dict[str, Any]:
        labels, model, whole = self.columns.whole().values()
        name, seed = self.context.evaluator_name, self.context.seed
        decided = self.kept.whole()
        curves = kept_curves({k: v == labels[:, None] for k, v in decided.items()}, seed=seed)
        found = EvaluatorResults(
            run=name,
            accuracy=100 * float((whole == labels).double().mean()),
            maps={
                kind: replace(
                    curve,
                    kept=kept_shares(decided[kind] == model[:, None], whole == model, seed=seed),
                )
                for kind, curve in curves.items()
            },
            chance=100 * guessing(labels),
        )
        if found.weakness:
            warnings.warn(f"{name} cannot judge maps: {found.weakness}", AibWarning, stacklevel=2)
        return {"evaluator": found}

    @torch.no_grad()
    def _decide(self, x: Tensor, mask: Tensor) -> Tensor:
        evaluator = self.context.evaluator
        assert evaluator is not None
        with evaluating(evaluator):
            return evaluator(x, deterministic=True, mask=mask).logits.argmax(dim=1)

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
                "kept at 10 / 20 / 30 %": _kept(curve),
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
            "encodes the class in its shape gains nothing here. Kept: of the model's predictions "
            "that the evaluator gives for whole images, it gives so many from the best pixels. "
            f"Evaluator, with its accuracy on whole images: {', '.join(whole)}."
        )
        return [table_of(TITLE, rows, note)]


def _kept(curve: KeptCurve) -> str:
    """The last one, which the verdict reads, with its interval."""
    some = [number(curve.kept.get(share, Estimate()).value, 1) for share in (0.1, 0.2)]
    return " / ".join([*some, curve.kept.get(KEPT, Estimate()).format()])


def kept_shares(agrees: Tensor, whole: Tensor, *, seed: int = 0) -> dict[float, Estimate]:
    """The model's predictions that an evaluator gives from the best pixels, bool [N,5], relative to
    those that it gives for whole images, bool [N]: percentages by share of the pixels."""
    below = whole.double().cpu()
    parts = {str(s): (100 * agrees[:, i].double().cpu(), below) for i, s in enumerate(SHARES)}
    return dict(zip(SHARES, ratio_estimates(parts, seed=seed).values(), strict=True))


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
        over = dict(zip(controls, found[len(SHARES) + 1 :], strict=True))
        curves[kind] = KeptCurve(
            dict(zip(SHARES, found, strict=False)),
            found[len(SHARES)],
            over_random=over.get("random"),
            over_centre=over.get("centre"),
        )
    return curves
