"""Would another classifier decide the same from the pixels that a map keeps?

An evaluator (`baselines/evaluator.py`) was trained on random masks and has never seen the maps it
judges. It sees the best 5 to 50% of each image's pixels, by the map, and noise elsewhere. A map
that encodes the class in its shape gains nothing here; one that selects evidence beats the
controls.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from aib.evaluation.intervals import Estimate, FlatResults, mean_estimates
from aib.interpret.metrics.faithfulness import ranked_pixels
from aib.interpret.metrics.reliance import guessing
from aib.models.baselines.evaluator import Evaluator
from aib.models.modes import evaluating

SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)  # of the pixels that are kept


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
    chance: float | None = None  # accuracy of guessing, in percent; not in older files


class Judge:
    """An evaluator's decisions on the same images under several kinds of maps, batch by batch."""

    def __init__(self, evaluator: Evaluator, run: str = "evaluator", *, seed: int = 0):
        self.evaluator, self.run, self.seed = evaluator, run, seed
        self.labels: list[Tensor] = []  # [B]
        self.whole: list[Tensor] = []  # bool [B]
        self.kept: dict[str, list[Tensor]] = {}  # by kind of map, bool [B,5]

    def see(self, x: Tensor, labels: Tensor) -> None:
        """Add a batch of images with all of their pixels."""
        self.labels.append(labels)
        self.whole.append(self._is_right(x, labels, torch.ones_like(x[:, 0])))

    def update(self, kind: str, x: Tensor, labels: Tensor, maps: Tensor) -> None:
        """Add the same batch with the best pixels of maps [B,h,w], resized to the images.

        Tied pixels are kept in a random order of the seed.
        """
        rank = ranked_pixels(x, maps, self.seed)[:, 0]  # [B,H,W]
        counts = [round(share * rank[0].numel()) for share in SHARES]
        right = [self._is_right(x, labels, (rank < count).to(x)) for count in counts]
        self.kept.setdefault(kind, []).append(torch.stack(right, dim=1))

    def results(self) -> EvaluatorResults:
        """Accuracies with their intervals."""
        accuracy = 100 * float(torch.cat(self.whole).double().mean())
        correct = {kind: torch.cat(parts) for kind, parts in self.kept.items()}
        chance = 100 * guessing(torch.cat(self.labels))
        return EvaluatorResults(self.run, accuracy, kept_curves(correct, seed=self.seed), chance)

    @torch.no_grad()
    def _is_right(self, x: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        with evaluating(self.evaluator):
            logits = self.evaluator(x, deterministic=True, mask=mask).logits
        return logits.argmax(dim=1) == labels


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
