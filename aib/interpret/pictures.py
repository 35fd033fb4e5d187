"""The paper's qualitative figures: maps of modified images, and where two models disagree."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from aib.classifier import Classifier, evaluating
from aib.data import Batches, ImageSet
from aib.figures.picture import Array, draw_mosaic, image_tile, map_tile
from aib.interpret.maps import own_maps
from aib.interpret.metrics.perturb import Modification

BLOCK = 8  # side of the occluding block shown


def shown_modifications(known: Mapping[str, Modification]) -> dict[str, Modification]:
    """One of each kind, in the order of the paper's Fig. 3: colour, foreign, high, low."""
    shown = [m for m in known.values() if m.amount == BLOCK or m.kind in ("high", "low")]
    kinds = {m.kind: m for m in reversed(shown)}  # the first of each kind
    return {kinds[k].name: kinds[k] for k in ("color", "foreign", "high", "low") if k in kinds}


def modified_grid(
    model: Classifier,
    feed: Batches,
    modifications: Mapping[str, Modification],
    *,
    foreign: Tensor | None = None,
    seed: int = 0,
    columns: int = 8,
) -> Any:
    """Like Fig. 3: the images, each row modified in one way, with their maps beneath."""
    batch = next(iter(feed.sample(columns, seed)))
    variants = {"original": batch.images}
    for name, modify in shown_modifications(modifications).items():
        variants[name] = modify(batch.images, batch.index, seed=seed, foreign=foreign)
    rows, names = [], []
    with evaluating(model):
        for name, images in variants.items():
            maps = own_maps(model, model.preprocessing.normalise(images))
            rows.append([image_tile(image) for image in images])
            rows.append([map_tile(a, (images.shape[2], images.shape[3])) for a in maps])
            names += [name, "map"]
    labels = [_name(feed.data, int(label)) for label in batch.labels]
    return draw_mosaic(rows, names, labels, "each map spread over its own range")


def disagreement(
    first: tuple[str, Classifier, Batches, Mapping[str, Tensor]],
    second: tuple[str, Classifier, Batches, Mapping[str, Tensor]],
    columns: int = 8,
) -> Any | None:
    """Like Fig. 5: images that the first gets wrong and the second right, with both maps.

    Each side is (label, model, its images, the columns of its survey). None if there is no such
    image, or a model has no map.
    """
    (name_a, model_a, feed_a, seen_a), (name_b, model_b, feed_b, seen_b) = first, second
    if "contrast" not in seen_a or "contrast" not in seen_b:
        return None
    places = ((seen_a["correct"] == 0) & (seen_b["correct"] == 1)).nonzero().flatten()[:columns]
    if not len(places):
        return None
    rows: list[list[Array]] = []
    for model, feed in ((model_a, feed_a), (model_b, feed_b)):
        chosen = feed.subset(places)
        images = torch.cat([batch.images for batch in chosen])
        size = (images.shape[2], images.shape[3])
        maps = own_maps(model, model.preprocessing.normalise(images))
        if not rows:
            rows.append([image_tile(image) for image in images])
        rows.append([map_tile(a, size) for a in maps])
    truth, wrong = seen_a["label"][places].tolist(), seen_a["prediction"][places].tolist()
    names = [
        f"{_name(feed_a.data, t)}\nnot {_name(feed_a.data, w)}"
        for t, w in zip(truth, wrong, strict=True)
    ]
    return draw_mosaic(
        rows, ["image", name_a, name_b], names, f"{name_a} is wrong, {name_b} is right"
    )


def _name(data: ImageSet, label: int) -> str:
    name = data.class_names[label] if data.class_names else str(label)
    return name if len(name) <= 12 else name[:11] + "…"
