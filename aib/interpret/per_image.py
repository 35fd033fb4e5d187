"""Metrics of every image: what the model decides, its map, and what each modification changes.

Every batch is read once, and explained once as it is and once under each modification. Metrics
stay on the device until the end; there is no loop over images.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aib.config.validation import check_decided, reject_unknown
from aib.data import Batch, Batches, ImageSet
from aib.evaluation.intervals import Estimate, finite_or_none, mean_estimates
from aib.interpret.maps import ImagesToMaps, explain_batch, given_maps
from aib.interpret.metrics.information import anchor_counts, entropy_bits
from aib.interpret.metrics.localise import energy_inside, mask_auroc, pointing
from aib.interpret.metrics.perturb import Modification
from aib.interpret.metrics.score import InterpretabilityScore
from aib.interpret.metrics.similarity import min_max
from aib.interpret.results import ClassMetrics, Stability
from aib.models.classifier import Classifier
from aib.models.explanation import Explanation
from aib.system.files import write_csv
from aib.system.progress import Tick, silent

Columns = dict[str, Tensor | None]


@dataclass(frozen=True)
class ImageMetrics:
    """One value per image and metric, and what follows from them."""

    # [N] each, on the CPU, NaN where undefined. Those of every kind of map, "own auroc" and
    # "gradcam deletion", are measured on the study's subset.
    columns: dict[str, Tensor]
    stability: dict[str, Stability]  # by modification
    anchors: list[float] | None = None  # rising
    anchor_shares: list[float] | None = None  # of all positions, in the same order

    @property
    def images(self) -> int:
        return len(self.columns["index"])

    @property
    def has_maps(self) -> bool:
        return "contrast" in self.columns

    def mean(self, name: str) -> float | None:
        """Mean over the images that define a metric; None where none does."""
        values = self.columns.get(name)
        if values is None or bool(values.isnan().all()):
            return None
        return float(values.double().nanmean())

    @property
    def perplexity(self) -> float | None:
        """How many anchors all maps together use in effect."""
        if self.anchor_shares is None:
            return None
        return 2 ** float(entropy_bits(torch.tensor(self.anchor_shares)))

    def difference(self, one: str, other: str, *, seed: int = 0) -> Estimate:
        """Mean of one column minus another, paired by image, with its interval; over the images
        that define both."""
        reject_unknown((one, other), self.columns, "no column is called")
        both = self.columns[one].double() - self.columns[other].double()
        both = both[~both.isnan()]
        return mean_estimates(both[:, None], seed=seed)[0] if len(both) else Estimate()

    def with_subset(self, found: Mapping[str, Tensor]) -> "ImageMetrics":
        """With further columns, measured on the images of `found["index"]`: NaN for the others."""
        at = {index: i for i, index in enumerate(found["index"].tolist())}
        rows = torch.tensor([at.get(index, -1) for index in self.columns["index"].tolist()])
        added = {
            name: values.float()[rows].masked_fill(rows < 0, torch.nan)
            for name, values in found.items()
            if name != "index"
        }
        return replace(self, columns=self.columns | added)

    def by_class(self, names: tuple[str, ...]) -> tuple[ClassMetrics, ...]:
        """Means over the images of each class that has any."""
        rows = []
        for label in self.columns["label"].unique().tolist():
            here = self.columns["label"] == label
            means = {
                name: finite_or_none(values[here].double().nanmean())
                for name, values in self.columns.items()
                if name not in ("index", "label", "prediction")
            }
            name = names[label] if names else str(label)
            rows.append(ClassMetrics(name, int(here.sum()), means))
        return tuple(rows)


@torch.no_grad()
def measure_images(
    model: Classifier,
    feed: Batches,
    modifications: Mapping[str, Modification],
    *,
    maps: ImagesToMaps | None = None,
    foreign: Tensor | None = None,
    seed: int = 0,
    tick: Tick = silent,
) -> ImageMetrics:
    """Measure all images of `feed`, as they are and under each modification, without noise.

    `maps` gives the maps in place of the model's own.
    """
    scores = {name: InterpretabilityScore(seed=seed).to(feed.device) for name in modifications}
    parts: dict[str, list[Tensor]] = {}

    def add(columns: Columns) -> None:
        for name, values in columns.items():
            if values is not None:
                parts.setdefault(name, []).append(values)

    def explain(images: Tensor) -> Explanation:
        x = model.preprocessing.normalise(images)
        found = explain_batch(model, x, deterministic=True)
        if maps is None:
            return found
        return replace(found, map=given_maps(maps, x), level_indices=None, anchors=None)

    for batch in feed:
        before = explain(batch.images)
        add(_of_image(batch, before))
        for name, modify in modifications.items():
            after = explain(modify(batch.images, batch.index, seed=seed, foreign=foreign))
            add(
                {
                    f"{name} correct": (after.prediction == batch.labels).float(),
                    f"{name} consistent": (after.prediction == before.prediction).float(),
                }
            )
            if before.map is not None and after.map is not None:
                scores[name].update(before.map, after.map, before.prediction, after.prediction)
            tick("modified images", len(batch.images))
    columns = {name: torch.cat(values).cpu() for name, values in parts.items()}
    probability = columns["probability"]
    check_decided(int(probability.isnan().sum()), len(probability))
    for name, score in scores.items():
        if score.cosine:
            columns[f"{name} cosine"] = torch.cat(score.cosine).cpu()
            columns[f"{name} centred"] = torch.cat(score.centred).cpu()
    stability = {name: _stability(name, columns, score) for name, score in scores.items()}
    used = columns.pop("anchors used", None)  # [N,Q]
    if used is None or before.anchors is None:
        return ImageMetrics(columns, stability)
    shares = (used.sum(0).double() / used.sum()).tolist()
    return ImageMetrics(columns, stability, before.anchors.float().tolist(), shares)


def _of_image(batch: Batch, found: Explanation) -> Columns:
    columns: Columns = {
        "index": batch.index,
        "label": batch.labels,
        "prediction": found.prediction,
        "correct": (found.prediction == batch.labels).float(),
        "probability": found.probability,
        "kl_bits": found.kl_bits,
        "energy_passed": found.energy_passed,
    }
    if found.map is None:
        return columns
    scaled = min_max(found.map)
    columns |= {"contrast": scaled.contrast, "flat": scaled.flat.float()}
    if batch.objects is not None:
        columns["pointing"] = pointing(found.map, batch.objects)
        columns["energy_inside"] = energy_inside(found.map, batch.objects)
        columns["auroc"] = mask_auroc(found.map, batch.objects)
    if found.level_indices is not None and found.anchors is not None:
        used = anchor_counts(found.level_indices, len(found.anchors))  # [B,Q]
        entropy = entropy_bits(used)
        columns |= {"anchors used": used, "entropy_bits": entropy, "perplexity": entropy.exp2()}
    return columns


def _stability(name: str, columns: dict[str, Tensor], score: InterpretabilityScore) -> Stability:
    values = {
        "accuracy": 100 * float(columns[f"{name} correct"].double().mean()),
        "prediction_consistent": 100 * float(columns[f"{name} consistent"].double().mean()),
    }
    if score.cosine:  # not for a model without maps
        values |= {key: float(value) for key, value in score.compute().items()}
    return Stability.from_flat(values)


def write_image_metrics(path: Path, runs: Mapping[str, ImageMetrics], data: ImageSet) -> None:
    """One row per run and image of `data`, one column per metric; empty where undefined."""
    classes = data.class_names
    files = data.keys if isinstance(data.keys[0], str) else ()
    columns = dict.fromkeys(n.replace(" ", "_") for m in runs.values() for n in m.columns)
    rows = []
    for label, metrics in runs.items():
        lists = {name.replace(" ", "_"): v.tolist() for name, v in metrics.columns.items()}
        for i, y in enumerate(lists["label"]):
            cells = {name: _cell(values[i]) for name, values in lists.items()}
            file, name = files[cells["index"]] if files else None, classes[y] if classes else y
            rows.append({"run": label, "file": file, "class": name, **cells})
    write_csv(path, ["run", *(["file"] if files else []), "class", *columns], rows)


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return value
