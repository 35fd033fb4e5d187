"""Does 80% mean 80%? Confidence against accuracy."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from aib.classifier import Classifier, seeded_evaluation
from aib.data import Batches
from aib.interpret.per_image import Tick, silent

BINS = 15


@dataclass(frozen=True)
class Reliability:
    """Images by how sure the model was; bins without images have count 0."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    accuracy: tuple[float, ...]  # 0 in an empty bin
    confidence: tuple[float, ...]
    error: float  # expected calibration error, percent
    samples: str

    @property
    def images(self) -> int:
        return sum(self.counts)


def reliability(
    model: Classifier, feed: Batches, *, seed: int = 0, tick: Tick = silent
) -> Reliability:
    """Bin the model's sampled predictions on the feed's images."""
    confident: list[Tensor] = []
    right: list[Tensor] = []
    with seeded_evaluation(model, seed):
        for batch in feed:
            out = model(model.preprocessing.normalise(batch.images))
            probability, prediction = out.logits.softmax(-1).max(-1)
            confident.append(probability)
            right.append(prediction == batch.labels)
            tick("calibration", len(batch.images))
    samples = model.describe_samples(None, deterministic=False)
    return binned(torch.cat(confident).cpu(), torch.cat(right).cpu(), samples=samples)


def binned(
    confidence: Tensor, right: Tensor, *, bins: int = BINS, samples: str = ""
) -> Reliability:
    """Equal bins of confidence [N] in [0,1]; `right` [N] is bool."""
    place = (confidence.double() * bins).ceil().long().sub(1).clamp(0, bins - 1)  # (low, high]
    counts = torch.bincount(place, minlength=bins)

    def mean(values: Tensor) -> Tensor:
        return torch.bincount(place, values.double(), minlength=bins) / counts.clamp(min=1)

    accuracy, certainty = mean(right), mean(confidence)
    error = float((counts * (accuracy - certainty).abs()).sum() / counts.sum())
    return Reliability(
        edges=tuple(i / bins for i in range(bins + 1)),
        counts=tuple(_integers(counts.tolist())),
        accuracy=tuple(accuracy.tolist()),
        confidence=tuple(certainty.tolist()),
        error=100 * error,
        samples=samples,
    )


def _integers(values: Iterable[float]) -> Iterable[int]:
    return (int(value) for value in values)
