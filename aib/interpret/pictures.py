"""The paper's qualitative figures: maps of modified images, and where two models disagree."""

from collections.abc import Mapping
from textwrap import wrap
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aib.data import Batches, ImageSet
from aib.figures.overlay import Array
from aib.figures.picture import draw_mosaic, image_tile, map_tile
from aib.interpret.images import ImageMetrics
from aib.interpret.maps import explain_batch
from aib.interpret.metrics.perturb import Modification
from aib.models.classifier import Classifier

BLOCK = 8  # side of the occluding block shown
LINE, LINES = 14, 4  # of a name: characters per line, and lines


def shown_modifications(known: Mapping[str, Modification]) -> dict[str, Modification]:
    """One of each kind, in the order of the paper's Fig. 3: colour, foreign, high, low."""
    shown = [m for m in known.values() if m.amount == BLOCK or m.kind in ("high", "low")]
    kinds = {m.kind: m for m in reversed(shown)}  # the first of each kind
    return {kinds[k].name: kinds[k] for k in ("color", "foreign", "high", "low") if k in kinds}


def modified_grid(
    models: Mapping[str, Classifier],
    feed: Batches,
    modifications: Mapping[str, Modification],
    *,
    foreign: Tensor | None = None,
    seed: int = 0,
    columns: int = 8,
) -> Any:
    """Like Fig. 3: images, modified in one way per row, below each row the maps of each model.

    `models` are by the names of their rows. A masked model shows its mask.
    """
    batches = list(feed.sample(columns, seed))
    originals, index = (torch.cat([getattr(b, n) for b in batches]) for n in ("images", "index"))
    variants = {"original": originals}
    for name, modify in shown_modifications(modifications).items():
        variants[name] = modify(originals, index, seed=seed, foreign=foreign)
    rows, names = [], []
    for name, images in variants.items():
        rows.append([image_tile(image) for image in images])
        rows += [_map_tiles(model, images) for model in models.values()]
        names.extend([name, *models])
    labels = [_name(feed.data, label) for batch in batches for label in batch.labels.tolist()]
    return draw_mosaic(rows, names, labels, "each map scaled to its own range")


class Side(NamedTuple):
    """One run of those that are compared."""

    label: str
    model: Classifier
    feed: Batches
    metrics: ImageMetrics


def disagreement(wrong: Side, right: Side, columns: int = 8) -> Any | None:
    """Like Fig. 5: images that one run gets wrong and the other right, with both maps.

    None if there is no such image, or a model has no map.
    """
    if not wrong.metrics.has_maps or not right.metrics.has_maps:
        return None
    seen = wrong.metrics.columns
    differ = (seen["correct"] == 0) & (right.metrics.columns["correct"] == 1)
    chosen = differ.nonzero().flatten()[:columns]
    if not len(chosen):
        return None
    rows: list[list[Array]] = []
    for side in (wrong, right):
        images = torch.cat([batch.images for batch in side.feed.subset(chosen)])
        if not rows:
            rows.append([image_tile(image) for image in images])
        rows.append(_map_tiles(side.model, images))
    labels, predictions = (seen[name][chosen].tolist() for name in ("label", "prediction"))
    data = wrong.feed.data
    names = [
        f"{_name(data, y)}\n{_name(data, p, 'not ')}"
        for y, p in zip(labels, predictions, strict=True)
    ]
    title = f"{wrong.label} is wrong, {right.label} is right; each map scaled to its own range"
    return draw_mosaic(rows, ["image", wrong.label, right.label], names, title)


def _map_tiles(model: Classifier, images: Tensor) -> list[Array]:
    x = model.preprocessing.normalise(images)
    maps = explain_batch(model, x, deterministic=True).attention
    assert maps is not None
    return [map_tile(map) for map in maps]


def _name(data: ImageSet, label: int, before: str = "") -> str:
    """The name of a class in short lines, broken at spaces, hyphens and underscores."""
    name = before + (data.class_names[label] if data.class_names else str(label))
    lines = wrap(name.replace("_", "_ "), LINE, max_lines=LINES, placeholder="…")
    return "\n".join(line.replace("_ ", "_") for line in lines)
