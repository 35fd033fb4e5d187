"""The study of one model's maps: every measurement of this package, on one set of images."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from aib.config.validation import Precision
from aib.data import Batches, ImageSet
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.interpret.foreign import prepare
from aib.interpret.kinds import first_images, map_makers
from aib.interpret.maps import ImagesToMaps, explain_batch
from aib.interpret.measure import NAMES, Context, MapMaker, Measure, run_measures
from aib.interpret.measures.backgrounds import BackgroundMeasure
from aib.interpret.measures.evaluator import EvaluatorMeasure
from aib.interpret.measures.faithfulness import FaithfulnessMeasure
from aib.interpret.measures.images import Images
from aib.interpret.measures.localisation import LocalisationMeasure
from aib.interpret.measures.mask import MaskMeasure
from aib.interpret.measures.randomisation import RandomisationMeasure
from aib.interpret.measures.stability import StabilityMeasure
from aib.interpret.measures.swaps import SwapMeasure
from aib.interpret.measures.transplant import TransplantMeasure
from aib.interpret.metrics.perturb import Modification, modifications
from aib.interpret.results import Study
from aib.models.baselines.evaluator import Evaluator, check_evaluator
from aib.models.classifier import Classifier
from aib.models.masked import Masked
from aib.models.modes import evaluating, passes_in
from aib.system.progress import progress_bar

# In the order of their tables.
MEASURES: tuple[type[Measure], ...] = (
    SwapMeasure, TransplantMeasure, StabilityMeasure, LocalisationMeasure, BackgroundMeasure,
    FaithfulnessMeasure, EvaluatorMeasure, MaskMeasure, RandomisationMeasure, Images,
)  # fmt: skip
ALL = modifications()


@dataclass(frozen=True)
class Plan:
    """What is measured, the same for every model that is compared.

    The default modifications are all; without `foreign` images those that need none.
    """

    modifications: Mapping[str, Modification] = field(default_factory=lambda: ALL)
    foreign: Tensor | None = None  # uint8 [M,3,h,w]
    subset: int = 256  # images of the expensive measures
    seed: int = 0
    evaluator: Evaluator | None = None  # judges the maps
    evaluator_name: str = "evaluator"
    precision: Precision = "fp32"  # of forward passes
    only: tuple[str, ...] = ()  # leaves out all measures but these, by the names of their files

    def __post_init__(self) -> None:
        names = [_name(m) for m in MEASURES]
        if unknown := set(self.only) - set(names):
            raise AibError(f"no measure is named {min(unknown)!r}: choose of {', '.join(names)}")
        if self.subset < 2:
            raise AibError(f"the subset needs at least 2 images, not {self.subset}")
        if self.foreign is None and self.modifications is ALL:
            own = {n: m for n, m in ALL.items() if m.kind != "foreign"}
            object.__setattr__(self, "modifications", own)


def _name(measure: type[Measure]) -> str:
    return measure.__module__.rpartition(".")[2]


def study(
    model: nn.Module,
    data: Batches | ImageSet | Dataset,
    plan: Plan | None = None,
    *,
    maps: Mapping[str, ImagesToMaps] | None = None,
    preprocessing: Preprocessing | None = None,
    name: str = "model",
    expensive: bool = True,
) -> Study:
    """Measure one model on labelled images; without `expensive` only what the verdict needs.

    `model` is one of ours, or any network from normalised images to logits. `maps` are further maps
    by name, each a function from normalised images [B,3,H,W] to maps [B,h,w]; they are measured on
    the subset, by all that needs no model which takes a map. `preprocessing` is that of a network
    which is no aib model; by default the data's.
    """
    began = time.perf_counter()
    model, feed = prepare(model, data, preprocessing)
    plan, maps = plan or Plan(), maps or {}
    _check_request(model, plan, maps, expensive)
    few = feed.sample(plan.subset, plan.seed)
    with progress_bar(1) as tick, evaluating(model):
        tick("preparing", 0)
        context, layer, remarks = _context(model, feed, few, plan, maps, expensive)
    found: dict[str, Any] = {"gradcam_layer": layer, "notes": tuple(remarks)}
    chosen = [m for m in MEASURES if not plan.only or _name(m) in plan.only or m is Images]
    kinds = [
        m for m in chosen if m.needs <= context.has and (expensive or (m.quick and not m.subset))
    ]
    on_all, on_few = ([m for m in kinds if m.subset == subset] for subset in (False, True))
    passes = sum(m.passes + m.stores for m in on_all)
    judges = () if plan.evaluator is None else (plan.evaluator,)
    work = feed.num_images * passes + few.num_images * len(on_few)
    with progress_bar(work) as tick, evaluating(model):
        context = replace(context, tick=tick)
        with torch.no_grad(), passes_in(plan.precision, model, *judges):
            measures = run_measures(context, [m(context) for m in on_all], feed)
            measures += run_measures(context, [m(context) for m in on_few], few)
        for measure in measures:
            tick(f"results: {measure.title}", 0)
            found |= measure.fields()
    return Study(
        model=name,
        subset_images=few.num_images if expensive else 0,
        data=feed.data.name,
        split=feed.data.split,
        of_images=len(feed.data),
        seed=plan.seed,
        seconds=time.perf_counter() - began,
        **found,
    )


def _check_request(
    model: Classifier, plan: Plan, maps: Mapping[str, ImagesToMaps], expensive: bool
) -> None:
    """Check maps and evaluator before anything is measured."""
    if not isinstance(maps, Mapping) or not all(callable(function) for function in maps.values()):
        raise AibError("maps must be functions by name, from images [B,3,H,W] to maps [B,h,w]")
    for taken in set(maps) & set(NAMES):
        raise AibError(f"maps of the name {taken!r} are aib's own: choose another name")
    if plan.evaluator is not None:
        check_evaluator(plan.evaluator, model, plan.evaluator_name)
    if not expensive and (maps or plan.evaluator):
        raise AibError("maps and an evaluator need the expensive measures, which are left out here")


def _context(
    model: Classifier,
    feed: Batches,
    few: Batches,
    plan: Plan,
    maps: Mapping[str, ImagesToMaps],
    expensive: bool,
) -> tuple[Context, str | None, list[str]]:
    """What can be measured, the layer of Grad-CAM, and remarks on what cannot."""
    x = first_images(model, feed, 1)
    has_maps = explain_batch(model, x, deterministic=True).map is not None
    why_not, size = no_objects(feed.data), model.preprocessing.image_size
    remarks = [why_not] if why_not else []
    fitting = {n: m for n, m in plan.modifications.items() if m.fits(size)}
    if len(fitting) < len(plan.modifications):
        remarks.append(f"blocks larger than the images of {size} x {size} were left out")
    if plan.precision != "fp32":
        remarks.append(f"forward passes in {plan.precision}")
    makers: dict[str, MapMaker] = {}
    layer = None
    if expensive:
        makers, layer, problems = map_makers(model, few, maps, has_maps=has_maps, seed=plan.seed)
        remarks += problems
    there = {
        "maps": has_maps,
        "takes_map": model.takes_map,
        "mask": isinstance(model, Masked) and model.takes_map,
        "objects": why_not is None,
        "outlines": feed.data.has_outlines,
        "evaluator": plan.evaluator is not None,
    }
    context = Context(
        model,
        frozenset(name for name, here in there.items() if here),
        seed=plan.seed,
        modifications=fitting,
        foreign=plan.foreign,
        makers=makers,
        evaluator=plan.evaluator,
        evaluator_name=plan.evaluator_name,
        batch_size=feed.batch_size,
    )
    return context, layer, remarks


def no_objects(data: ImageSet) -> str | None:
    """Why localisation is undefined on the data; None if it is defined."""
    if data.has_objects:
        return None
    if data.files is not None and data.files.crops is not None:
        return "localisation is undefined: the images are cropped to the objects' boxes"
    return f"localisation needs masks or boxes, and {data.name} has neither"
