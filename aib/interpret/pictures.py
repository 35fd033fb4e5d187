"""The paper's Fig. 3: maps of modified images."""

from collections.abc import Mapping
from textwrap import wrap

import torch
from PIL import Image
from torch import Tensor

from aib.data import Batches, ImageSet
from aib.figures.overlay import Array
from aib.figures.picture import draw_mosaic, image_tile, map_tile
from aib.interpret.maps import explain_batch
from aib.interpret.metrics.perturb import Modification
from aib.interpret.studies import Plan
from aib.models.classifier import Classifier

BLOCK = 8  # side of the occluding block shown
LINE, LINES = 14, 4  # of a name: characters per line, and lines


def modified_grid(
    models: Mapping[str, Classifier], feed: Batches, plan: Plan, columns: int = 8
) -> Image.Image:
    """Images, modified in one way per row, below each row the maps of each model.

    `models` are by the names of their rows. A masked model shows its mask.
    """
    batches = list(feed.sample(columns, plan.seed))
    originals, index = (torch.cat([getattr(b, n) for b in batches]) for n in ("images", "index"))
    variants = {"original": originals}
    for modify in _shown(plan.modifications):
        variants[modify.name] = modify(originals, index, seed=plan.seed, foreign=plan.foreign)
    rows, names = [], []
    for name, images in variants.items():
        rows.append([image_tile(image) for image in images])
        rows += [_map_tiles(model, images) for model in models.values()]
        names.extend([name, *models])
    labels = [_name(feed.data, label) for batch in batches for label in batch.labels.tolist()]
    return draw_mosaic(rows, names, labels, "each map scaled to its own range")


def _shown(known: Mapping[str, Modification]) -> list[Modification]:
    """The first of each kind, in the paper's order."""
    shown = [m for m in known.values() if m.amount == BLOCK or m.kind in ("high", "low")]
    kinds = {m.kind: m for m in reversed(shown)}
    return [kinds[kind] for kind in ("color", "foreign", "high", "low") if kind in kinds]


def _map_tiles(model: Classifier, images: Tensor) -> list[Array]:
    x = model.preprocessing.normalise(images)
    maps = explain_batch(model, x, deterministic=True).attention
    assert maps is not None
    return [map_tile(map) for map in maps]


def _name(data: ImageSet, label: int) -> str:
    """The name of a class in short lines, broken at spaces, hyphens and underscores."""
    name = data.class_names[label] if data.class_names else str(label)
    lines = wrap(name.replace("_", "_ "), LINE, max_lines=LINES, placeholder="…")
    return "\n".join(line.replace("_ ", "_") for line in lines)
