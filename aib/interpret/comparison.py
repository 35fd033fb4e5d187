"""The model's own maps beside post-hoc maps and controls: localisation and faithfulness."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor

from aib.data import Batch, Batches, ImageSet
from aib.errors import AibError
from aib.evaluation.intervals import mean_estimates
from aib.interpret.maps import ImagesToMaps, Method, given_maps, make_maps
from aib.interpret.metrics.checks import check_finite, count_broken
from aib.interpret.metrics.controls import centre_gaussian, random_map
from aib.interpret.metrics.evaluator import EvaluatorResults, Judge
from aib.interpret.metrics.faithfulness import Curve, deletion_insertion
from aib.interpret.metrics.localise import METRICS, Localisation
from aib.interpret.metrics.road import road
from aib.interpret.metrics.wsol import WSOL, Thresholds
from aib.interpret.posthoc import completeness, has_captum
from aib.interpret.results import Faithfulness, Located
from aib.models.classifier import Classifier
from aib.system.progress import Tick, silent

MapKind = Literal["own", "gradcam", "integrated_gradients", "centre", "random"]


@dataclass(frozen=True)
class Comparison:
    """The fields of `Study` by kind of map, and what they are means of; `localisation` is empty
    where there are no masks."""

    subset_images: int
    localisation: dict[str, Located]
    faithfulness: dict[str, Faithfulness]
    evaluator: EvaluatorResults | None
    per_image: dict[str, Tensor]  # "index", and "KIND METRIC": [N] each, on the CPU


def map_kinds(has_maps: bool) -> tuple[MapKind, ...]:
    """The model's own maps if it has any, two post-hoc ones where captum is there, two controls."""
    own: tuple[MapKind, ...] = ("own",) if has_maps else ()
    posthoc: tuple[MapKind, ...] = ("gradcam", "integrated_gradients") if has_captum() else ()
    return (*own, *posthoc, "centre", "random")


def compare(
    model: Classifier,
    feed: Batches,
    kinds: Sequence[MapKind],
    *,
    objects: bool,
    functions: Mapping[str, ImagesToMaps] | None = None,
    judge: Judge | None = None,
    threshold_images: Batches | None = None,
    seed: int = 0,
    tick: Tick = silent,
) -> Comparison:
    """Localisation (where `masks`), deletion, insertion and ROAD for each kind of map.

    `functions` make further maps; the evaluator of `judge` sees the pixels that each map keeps.
    `threshold_images` are other images with masks: the thresholds that are best on them give the
    held-out scores of localisation.
    """
    functions = functions or {}
    named = (*functions, *kinds)

    def make(x: Tensor, batch: Batch, kind: str) -> Tensor:
        if kind in functions:
            maps = given_maps(functions[kind], x)
        else:
            maps = maps_of_kind(model, x, batch, kind, seed, feed.batch_size)
        check_finite(int(count_broken(maps)), f"the maps {kind!r}")
        return maps

    outlines, chosen = not feed.data.has_only_boxes, {}
    if objects and threshold_images is not None:
        chosen = choose_thresholds(model, threshold_images, named, make, tick=tick)
    located = {kind: Localisation(seed=seed).to(feed.device) for kind in named}
    cut = {
        kind: WSOL(thresholds=chosen.get(kind), objects=outlines, seed=seed).to(feed.device)
        for kind in named
    }
    curves: dict[str, list[dict[str, Curve]]] = {kind: [] for kind in named}
    sums: list[Tensor] = []  # what Integrated Gradients sum to, and should: [2,B] each
    index: list[Tensor] = []
    deterministic = partial(model, deterministic=True)
    for batch in feed:
        index.append(batch.index)
        x = model.preprocessing.normalise(batch.images)
        if judge is not None:
            judge.see(x, batch.labels)
        for kind in named:
            maps = make(x, batch, kind)
            if objects and batch.objects is not None:
                located[kind].update(maps, batch.objects)
                cut[kind].update(maps, batch.objects, batch.boxes)
            curves[kind].append(
                deletion_insertion(deterministic, x, maps, seed=seed)
                | road(deterministic, x, maps, seed=seed)
            )
            if kind == "integrated_gradients":
                sums.append(torch.stack(completeness(deterministic, x, maps)))
            if judge is not None:
                judge.update(kind, x, batch.labels, maps)
            tick("other maps: deletion, insertion, ROAD", len(x))
    faithfulness = {kind: _faithfulness(curves[kind], seed) for kind in named}
    if sums:
        total, change = torch.cat(sums, dim=1).double()
        gap = float((total - change).abs().sum() / change.abs().sum())
        exact = faithfulness["integrated_gradients"]
        faithfulness["integrated_gradients"] = replace(exact, completeness_gap=gap)
    localisation: dict[str, Located] = {
        kind: Located.from_flat(
            {k: float(v) for k, v in (located[kind].compute() | cut[kind].compute()).items()}
        )
        for kind in (named if objects else ())
    }
    per_image = {"index": torch.cat(index).cpu()}
    for kind in named:
        values = _areas(curves[kind])
        for name in METRICS if objects else ():  # by the names of the columns of all images
            column = "energy_inside" if name == "energy" else name
            values[column] = located[kind].per_image(name)
        per_image |= {f"{kind} {name}": found.cpu() for name, found in values.items()}
    judged = None if judge is None else judge.results()
    return Comparison(feed.num_images, localisation, faithfulness, judged, per_image)


def choose_thresholds(
    model: Classifier,
    feed: Batches,
    kinds: Sequence[str],
    make: Callable[[Tensor, Batch, str], Tensor],
    *,
    tick: Tick = silent,
) -> dict[str, Thresholds | None]:
    """The thresholds at which each kind of map, made by `make`, fits these masks best."""
    if no_objects(feed.data):
        raise AibError("the images that choose thresholds need masks or boxes")
    metrics = {kind: WSOL(objects=not feed.data.has_only_boxes).to(feed.device) for kind in kinds}
    for batch in feed:
        assert batch.objects is not None
        x = model.preprocessing.normalise(batch.images)
        for kind in kinds:
            metrics[kind].update(make(x, batch, kind), batch.objects, batch.boxes)
            tick("thresholds of localisation", len(x))
    return {kind: metric.thresholds() for kind, metric in metrics.items()}


def maps_of_kind(
    model: Classifier, x: Tensor, batch: Batch, kind: str, seed: int, chunk: int
) -> Tensor:
    """Maps of one kind for a batch of normalised images."""
    size = (x.shape[2], x.shape[3])
    if kind == "centre":
        return centre_gaussian(len(x), size, device=x.device)
    if kind == "random":
        return random_map(batch.index, size, seed=seed)
    return make_maps(model, x, cast(Method, kind), chunk=chunk)


def no_objects(data: ImageSet) -> str | None:
    """Why localisation is undefined on the data; None if it is defined."""
    if data.has_objects:
        return None
    if data.files is not None and data.files.crops is not None:
        return (
            "localisation is undefined here: the images are cropped to the objects' boxes, "
            "so nothing is outside"
        )
    return f"localisation needs masks or boxes, and {data.name} has neither"


def _areas(batches: list[dict[str, Curve]]) -> dict[str, Tensor]:
    """The area under each image's curve [N], by the curve's name."""
    return {name: torch.cat([batch[name].area for batch in batches]) for name in batches[0]}


def _faithfulness(batches: list[dict[str, Curve]], seed: int) -> Faithfulness:
    areas = _areas(batches)
    means = mean_estimates(torch.stack([*areas.values()], dim=1), seed=seed)
    found: dict[str, Any] = dict(zip(areas, means, strict=True))
    for name in areas:
        curve = torch.cat([batch[name].values for batch in batches]).mean(0)
        found[f"{name}_curve"] = curve.tolist()
    fractions = batches[0]["road_morf"].fractions.tolist()
    return Faithfulness(**found, road_fractions=[round(f, 6) for f in fractions])
