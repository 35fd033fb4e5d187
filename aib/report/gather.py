"""What a report is made of: the files of a run, and what has to be measured for it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from aib.classifier import Classifier, evaluating
from aib.data import Batches
from aib.errors import AibError
from aib.figures.overlay import overlay
from aib.figures.picture import SIGMA_COLORS, Array, image_tile
from aib.files import read_json
from aib.interpret.maps import make_maps
from aib.interpret.metrics.perturb import modifications
from aib.interpret.per_image import Tick, silent
from aib.interpret.posthoc import has_captum
from aib.interpret.results import SCHEMA
from aib.interpret.runs import RESULT, feed_for, study_run
from aib.interpret.study import Plan
from aib.report.calibration import Reliability, reliability
from aib.runs import EVALUATION, Run, read_metrics
from aib.settings import Settings
from aib.weights import CONFIG, read_config

TILE = 96  # pixels of a small picture in the page


@dataclass(frozen=True)
class Maps:
    """One image of the gallery."""

    truth: str
    prediction: str
    probability: float
    tiles: tuple[tuple[str, Array], ...]  # what it shows, uint8 [H,W,3]


@dataclass(frozen=True)
class Material:
    """Everything the page says of one run. What could not be had is None, with a note."""

    label: str
    model: str
    folder: Path
    config: dict[str, Any]
    settings: Settings | None
    metrics: list[dict[str, Any]]
    evaluations: dict[str, dict[str, Any]]
    result: dict[str, Any] | None = None  # interpret.json
    reliability: Reliability | None = None
    gallery: tuple[Maps, ...] = ()
    pictures: tuple[Path, ...] = ()
    notes: tuple[str, ...] = field(default=())


def gather(
    opened: Run,
    *,
    data: str | None = None,
    root: str | None = None,
    images: int = 1000,
    subset: int = 64,
    seed: int = 0,
    stored: bool = False,
    like: Run | None = None,
    tick: Tick = silent,
) -> Material:
    """Read a run's folder; measure what it lacks on at most `images` test images.

    With `stored` nothing is measured and no data are read. `like` is the run whose images count,
    where several are compared.
    """
    notes: list[str] = []
    result, stale = read_result(opened, data)
    notes += [stale] if stale else []
    # Pictures are drawn together with the figures: of other weights, both are left out.
    pictures = tuple(sorted((opened.folder / "figures").glob("*.png"))) if result else ()
    calibrated: Reliability | None = None
    gallery: tuple[Maps, ...] = ()
    if not stored:
        try:
            dataset = opened.labelled_images(data, None, root, like)
            feed = feed_for(opened, dataset, images=min(images, len(dataset)), seed=seed)
            calibrated = reliability(opened.model, feed, seed=seed, tick=tick)
            gallery = make_gallery(opened.model, feed, seed=seed)
            if result is None:
                source = like or opened
                name = data or (source.settings.data if source.settings else dataset.name)
                result = _measure(opened, feed, name, subset, seed, tick)
        except AibError as error:
            if data is not None:
                raise  # asked for by name; the run's own data may well be elsewhere
            notes.append(f"Nothing could be measured on images: {error}.")
    return Material(
        label=opened.label,
        model=opened.name,
        folder=opened.folder,
        config=read_config(opened.folder / CONFIG),
        settings=opened.settings,
        metrics=read_metrics(opened.folder),
        evaluations=read_json(opened.folder / EVALUATION) or {},
        result=result,
        reliability=calibrated,
        gallery=gallery,
        pictures=pictures,
        notes=tuple(notes),
    )


def _measure(
    opened: Run, feed: Batches, data: str, subset: int, seed: int, tick: Tick
) -> dict[str, Any]:
    """What `aib interpret` would, without foreign images."""
    known = {n: m for n, m in modifications().items() if m.kind != "foreign"}
    sentence = (
        f"Measured for this page on {feed.num_images:,} images, without occlusion by foreign "
        "images; `aib interpret` measures in full."
    )
    plan = Plan(known, None, subset, seed)
    return study_run(opened, feed, plan, data, notes=[sentence], tick=tick)[0].to_dict()


def read_result(opened: Run, data: str | None) -> tuple[dict[str, Any] | None, str]:
    """interpret.json, if it is of these weights and of the data asked for."""
    result = read_json(opened.folder / RESULT)
    if result is None:
        return None, ""
    if result.get("schema") != SCHEMA:
        return None, f"{RESULT} is of another version of aib and is left out."
    if data is not None and result.get("data") != data:
        return None, f"{RESULT} is of {result.get('data')}, not of {data}, and is left out."
    if result.get("weights_sha256") != opened.checksum:
        return None, f"{RESULT} is of other weights than the run's and is left out."
    return result, ""


@torch.no_grad()
def make_gallery(
    model: Classifier, feed: Batches, *, count: int = 12, seed: int = 0
) -> tuple[Maps, ...]:
    """A seeded sample of images with their maps; for a model without maps, Grad-CAM's."""
    batch = next(iter(feed.sample(count, seed)))
    x = model.preprocessing.normalise(batch.images)
    with evaluating(model):
        out = model(x, deterministic=True)
        if out.attention is not None:
            maps, levels = model.mean_map(out.attention)
            sigma = out.attention.sigma
        elif has_captum():
            maps, levels, sigma = make_maps(model, x, "gradcam"), None, None
        else:
            return ()
    what = "map" if out.attention is not None else "Grad-CAM"
    count_levels = 1
    if model.quantizer is not None:
        count_levels = max(model.quantizer.num_anchors - 1, 1)
    probability, prediction = out.logits.softmax(-1).max(-1)
    names = feed.data.class_names
    gallery = []
    for i in range(len(x)):
        picture = _enlarged(image_tile(batch.images[i]))
        tiles = [("image", picture), (f"{what} over it", overlay(picture, maps[i].cpu()))]
        blank = picture * 0
        if levels is not None:
            level = levels[i].float().cpu() / count_levels
            tiles.append(("levels", overlay(blank, _blocks(level), alpha=1.0, scale=False)))
        if sigma is not None:
            shown = overlay(blank, _blocks(sigma[i].cpu()), colormap=SIGMA_COLORS, alpha=1.0)
            tiles.append(("uncertainty", shown))
        guess, truth = int(prediction[i]), int(batch.labels[i])
        gallery.append(Maps(names[truth], names[guess], float(probability[i]), tuple(tiles)))
    return tuple(gallery)


def _enlarged(tile: Array) -> Array:
    """By whole factors to about TILE pixels; a large image is thinned out instead."""
    factor = max(1, TILE // max(tile.shape[:2]))
    step = max(1, max(tile.shape[:2]) // (2 * TILE))
    return tile[::step, ::step].repeat(factor, axis=0).repeat(factor, axis=1)


def _blocks(map: torch.Tensor) -> torch.Tensor:
    """Each place as a square, not blurred into its neighbours."""
    factor = max(1, TILE // max(map.shape))
    return map.repeat_interleave(factor, 0).repeat_interleave(factor, 1)
