"""One value per image and metric: decision, map, information; and what follows from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.config.validation import check_decided
from aib.data import ImageSet
from aib.evaluation.intervals import finite_or_none
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measures.localisation import energy_inside, mask_auroc, pointing
from aib.interpret.metrics.similarity import min_max
from aib.interpret.results import ClassMetrics, Information
from aib.models import decision
from aib.system.files import write_csv


def anchor_counts(indices: Tensor, num_anchors: int) -> Tensor:
    """How often each map uses each anchor: indices [...,h,w] to integers [...,Q]."""
    return F.one_hot(indices.flatten(-2).long(), num_anchors).sum(dim=-2)


def entropy_bits(counts: Tensor) -> Tensor:
    """Entropy of the distribution given by counts [...,Q]: [...], 0 to log2 Q.

    2^H is the perplexity, the number of equally used anchors that has this entropy.
    """
    return decision.entropy_bits(counts.double() / counts.double().sum(dim=-1, keepdim=True))


@dataclass(frozen=True)
class ImageMetrics:
    """The values of each image, and how often each anchor is used."""

    # [N] each, on the CPU, NaN where undefined. Those of every kind of map, "own auroc" and
    # "gradcam deletion", are measured on the study's subset.
    columns: dict[str, Tensor]
    anchors: list[float] | None = None
    anchor_shares: list[float] | None = None

    @property
    def images(self) -> int:
        return len(self.columns["index"])

    @property
    def has_maps(self) -> bool:
        return "contrast" in self.columns

    def mean(self, name: str) -> float | None:
        """Mean over the images that define a metric; None where none does."""
        values = self.columns.get(name)
        return None if values is None else finite_or_none(values.double().nanmean())

    @property
    def information(self) -> Information:
        """What latent and map carry."""
        used = self.anchor_shares
        return Information(
            **{name: self.mean(name) for name in ("kl_bits", "entropy_bits", "energy_passed")},
            perplexity=2 ** float(entropy_bits(torch.tensor(used))) if used else None,
            contrast=self.mean("contrast"),
            flat_maps=self.mean("flat"),
            anchors=self.anchors,
            anchor_shares=used,
        )

    def with_subset(self, index: Tensor, added: Mapping[str, Tensor]) -> "ImageMetrics":
        """With further columns, measured on the images `index`: NaN for the others."""
        at = {image: i for i, image in enumerate(index.tolist())}
        rows = torch.tensor([at.get(image, -1) for image in self.columns["index"].tolist()])
        wide = {
            name: values.cpu().float()[rows].masked_fill(rows < 0, torch.nan)
            for name, values in added.items()
        }
        return replace(self, columns=self.columns | wide)

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


class Images(Measure):
    """What the model decides on each image, and its own map."""

    title = "images"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.parts: dict[str, list[Tensor]] = {}
        self.anchors: Tensor | None = None
        self.used: list[Tensor] = []  # [B,Q], how often each map uses each anchor

    def update(self, view: View) -> None:
        """Add the values of a batch."""
        batch, found = view.batch, view.explanation
        columns: dict[str, Tensor | None] = {
            "index": batch.index,
            "label": batch.labels,
            "prediction": found.prediction,
            "correct": (found.prediction == batch.labels).float(),
            "probability": found.probability,
            "kl_bits": found.kl_bits,
            "energy_passed": found.energy_passed,
        }
        if found.map is not None:
            scaled = min_max(found.map)
            columns |= {"contrast": scaled.contrast, "flat": scaled.flat.float()}
            if batch.objects is not None:
                columns["pointing"] = pointing(found.map, batch.objects)
                columns["energy_inside"] = energy_inside(found.map, batch.objects)
                columns["auroc"] = mask_auroc(found.map, batch.objects)
        if found.level_indices is not None and found.anchors is not None:
            used = anchor_counts(found.level_indices, len(found.anchors))
            entropy = entropy_bits(used)
            columns |= {"entropy_bits": entropy, "perplexity": entropy.exp2()}
            self.anchors = found.anchors
            self.used.append(used)
        for name, values in columns.items():
            if values is not None:
                self.parts.setdefault(name, []).append(values)

    def columns(self) -> dict[str, Tensor]:
        """The values named above."""
        found = {name: torch.cat(values).cpu() for name, values in self.parts.items()}
        check_decided(int(found["probability"].isnan().sum()), len(found["probability"]))
        return found

    def metrics(self, more: Mapping[str, Tensor] | None = None) -> ImageMetrics:
        """All columns, also those of other measures."""
        columns = self.columns() | dict(more or {})
        if self.anchors is None:
            return ImageMetrics(columns)
        used = torch.cat(self.used).sum(0).double()
        shares = (used / used.sum()).tolist()
        return ImageMetrics(columns, self.anchors.float().tolist(), shares)


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
