"""One walk over the images: what the model decides, where it looks, what each modification does.

Every batch is read once, looked at once as it is and once under each modification. Rows of figures
stay on the device until the end; there is no loop over images.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from aib.classifier import Classifier
from aib.explanation import Explanation
from aib.interpret.maps import explain_batch
from aib.interpret.metrics.information import (
    anchor_counts,
    count_entropy,
    index_entropy,
    perplexity,
)
from aib.interpret.metrics.localise import energy_inside, mask_auroc, pointing
from aib.interpret.metrics.perturb import Modification
from aib.interpret.metrics.score import InterpretabilityScore
from aib.interpret.metrics.similarity import min_max
from aib.interpret.pixels import Feed, Pixels

Tick = Callable[[str, int], None]  # what is being done, and how many images have been


def silent(what: str, images: int) -> None:
    """For callers who do not watch."""


@dataclass(frozen=True)
class Survey:
    """What the walk found."""

    images: int
    columns: dict[str, Tensor]  # a figure an image, [N] each, on the CPU; NaN where undefined
    stability: dict[str, dict[str, float]]  # modification -> figures
    anchor_shares: list[float] | None  # how often each anchor is taken, in rising order of value
    anchors: list[float] | None

    def mean(self, name: str) -> float | None:
        """Mean over the images that define it; None where none does or the model has no such."""
        values = self.columns.get(name)
        if values is None or bool(values.isnan().all()):
            return None
        return float(values.double().nanmean())

    @property
    def perplexity(self) -> float | None:
        """How many anchors all maps together use in effect."""
        if self.anchor_shares is None:
            return None
        return float(perplexity(count_entropy(torch.tensor(self.anchor_shares))))


@dataclass
class _Tables:
    """What grows while walking."""

    rows: dict[str, list[Tensor]] = field(default_factory=dict)
    counts: Tensor | None = None  # [Q]

    def add(self, **columns: Tensor | None) -> None:
        for name, values in columns.items():
            if values is not None:
                self.rows.setdefault(name, []).append(values)

    def read(self) -> dict[str, Tensor]:
        return {name: torch.cat(parts).cpu() for name, parts in self.rows.items()}


@torch.no_grad()
def survey(
    model: Classifier,
    feed: Feed,
    modifications: Mapping[str, Modification],
    *,
    foreign: Tensor | None = None,
    seed: int = 0,
    tick: Tick = silent,
) -> Survey:
    """Walk over all images of `feed` with the model as it stands (evaluation mode)."""
    scores = {name: InterpretabilityScore(seed=seed).to(feed.device) for name in modifications}
    tables = _Tables()
    for batch in feed:
        before = explain_batch(
            model, model.preprocessing.normalise(batch.images), deterministic=True
        )
        _note_image(tables, model, batch, before)
        for name, modify in modifications.items():
            images = modify(batch.images, batch.index, seed=seed, foreign=foreign)
            after = explain_batch(model, model.preprocessing.normalise(images), deterministic=True)
            _note_change(tables, name, batch, before, after, scores[name])
            tick("modified images", len(batch.images))
    columns = tables.read()
    for name in modifications:
        if scores[name].cosine:
            columns[f"{name} cosine"] = torch.cat(scores[name].cosine).cpu()
            columns[f"{name} centred"] = torch.cat(scores[name].centred).cpu()
    stability = {name: _stability(name, columns, scores[name]) for name in modifications}
    shares, anchors = _anchors(model, tables.counts)
    return Survey(len(columns["index"]), columns, stability, shares, anchors)


def _note_image(tables: _Tables, model: Classifier, batch: Pixels, seen: Explanation) -> None:
    tables.add(
        index=batch.index,
        label=batch.labels,
        prediction=seen.prediction,
        correct=(seen.prediction == batch.labels).float(),
        probability=seen.probability,
        kl_bits=seen.kl_bits,
        energy_passed=seen.energy_passed,
    )
    if seen.map is None:
        return
    scaled = min_max(seen.map)
    tables.add(contrast=scaled.contrast, flat=scaled.flat.float())
    if batch.masks is not None:
        tables.add(
            pointing=pointing(seen.map, batch.masks),
            energy_inside=energy_inside(seen.map, batch.masks),
            auroc=mask_auroc(seen.map, batch.masks),
        )
    if seen.level_indices is not None and seen.anchors is not None:
        entropy = index_entropy(seen.level_indices, len(seen.anchors))
        tables.add(entropy_bits=entropy, perplexity=perplexity(entropy))
        counts = anchor_counts(seen.level_indices, len(seen.anchors)).sum(0)  # [Q]
        tables.counts = counts if tables.counts is None else tables.counts + counts


def _note_change(
    tables: _Tables,
    name: str,
    batch: Pixels,
    before: Explanation,
    after: Explanation,
    score: InterpretabilityScore,
) -> None:
    decided, decides = before.prediction, after.prediction
    right, same = (decides == batch.labels).float(), (decides == decided).float()
    tables.add(**{f"{name} correct": right, f"{name} consistent": same})
    if before.map is not None and after.map is not None:
        score.update(before.map, after.map, decided, decides)


def _stability(
    name: str, columns: dict[str, Tensor], score: InterpretabilityScore
) -> dict[str, float]:
    figures = {
        "accuracy": 100 * float(columns[f"{name} correct"].double().mean()),
        "prediction_consistent": 100 * float(columns[f"{name} consistent"].double().mean()),
    }
    if not score.cosine:  # a model without maps
        return figures
    return figures | {key: float(value) for key, value in score.compute().items()}


def _anchors(
    model: Classifier, counts: Tensor | None
) -> tuple[list[float] | None, list[float] | None]:
    if counts is None or model.quantizer is None:
        return None, None
    shares: list[float] = (counts.double() / counts.sum()).tolist()
    anchors: list[float] = model.quantizer.anchors.detach().float().sort().values.tolist()
    return shares, anchors


def by_class(columns: Mapping[str, Tensor], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Means over the images of each class: one row a class that has any."""
    rows = []
    for label in columns["label"].unique().tolist():
        here = columns["label"] == label
        row: dict[str, Any] = {"class": names[label] if names else str(label), "images": 0}
        row["images"] = int(here.sum())
        for name, values in columns.items():
            if name not in ("index", "label", "prediction"):
                mean = float(values[here].double().nanmean())
                row[name] = None if mean != mean else mean
        rows.append(row)
    return rows
