"""The study of one model's maps: every measurement of this package, on one set of images."""

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor, nn

from aib.config.paper import PAPER_SCORES
from aib.config.validation import Precision
from aib.data import Batches, ImageSet
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, AibWarning, missing_extra
from aib.interpret.comparison import MapKind, compare, map_kinds, no_objects
from aib.interpret.foreign import prepare
from aib.interpret.maps import ImagesToMaps, own_maps
from aib.interpret.metrics.evaluator import Judge
from aib.interpret.metrics.perturb import Modification, modifications
from aib.interpret.metrics.sanity import randomise_layers
from aib.interpret.per_image import ImageMetrics, measure_images
from aib.interpret.posthoc import gradcam_layer, has_captum, integrated_gradients
from aib.interpret.replaced import measure_mask, replace_maps
from aib.interpret.results import Information, OwnLocalisation, Study
from aib.interpret.verdict import evaluator_weakness
from aib.models.baselines.evaluator import Evaluator, check_evaluator
from aib.models.classifier import Classifier
from aib.models.modes import evaluating, passes_in
from aib.system.progress import Tick, progress_bar, silent

RANDOMISED = 64  # images of the layer randomisation at most: it copies and runs the model often
ALL = modifications()


@dataclass(frozen=True)
class Plan:
    """What is measured, the same for every model that is compared.

    The default modifications are all; without `foreign` images those that need none.
    """

    modifications: Mapping[str, Modification] = field(default_factory=lambda: ALL)
    foreign: Tensor | None = None  # uint8 [M,3,h,w]
    subset: int = 256  # images of the expensive parts
    seed: int = 0
    evaluator: Evaluator | None = None  # judges the maps
    evaluator_name: str = "evaluator"
    precision: Precision = "fp32"  # of forward passes

    def __post_init__(self) -> None:
        if not isinstance(self.modifications, Mapping):
            raise AibError(
                'modifications must be by name, as in {"color-8": modifications()["color-8"]}, '
                f"not a {type(self.modifications).__name__}"
            )
        if self.subset < 2:
            raise AibError(f"the subset needs at least 2 images, not {self.subset}")
        if self.foreign is None and self.modifications is ALL:
            own = {n: m for n, m in ALL.items() if m.kind != "foreign"}
            object.__setattr__(self, "modifications", own)


def study(
    model: nn.Module,
    data: Batches | ImageSet,
    plan: Plan | None = None,
    *,
    maps: Mapping[str, ImagesToMaps] | None = None,
    preprocessing: Preprocessing | None = None,
    name: str = "model",
    origin: Mapping[str, Any] | None = None,
    notes: tuple[str, ...] = (),
    expensive: bool = True,
    threshold_images: Batches | None = None,
    progress: bool = True,
    tick: Tick | None = None,
) -> tuple[Study, ImageMetrics]:
    """Measure one model on labelled images: the results, and the values of each image. `expensive`
    adds the parts on the subset.

    `model` is one of ours, or any network from normalised images to logits. `maps` are further maps
    by name, each a function from normalised images [B,3,H,W] to maps [B,h,w]; they are measured on
    the subset, by all that needs no model which takes a map. `preprocessing` is that of a network
    which is no aib model; by default the data's.

    `origin` holds the fields of `Study` that say where it comes from. `threshold_images` choose the
    held-out thresholds of localisation: images with masks that are not in `data`.

    `progress` shows a bar on a terminal; a `tick` of your own is called instead, with the name of
    the current part and the number of images just done.
    """
    model, feed = prepare(model, data, preprocessing)
    plan, maps = plan or Plan(), maps or {}
    _check_request(model, plan, maps, expensive)
    origin = {
        "data": feed.data.name,
        "split": feed.data.split,
        "of_images": len(feed.data),
        "class_names": feed.data.class_names,
        "seed": plan.seed,
        **(origin or {}),
    }
    why_not, size = no_objects(feed.data), model.preprocessing.image_size
    notes = (*([why_not] if why_not else []), *notes)
    fitting = {n: m for n, m in plan.modifications.items() if m.fits(size)}
    if len(fitting) < len(plan.modifications):
        notes = (*notes, f"blocks larger than the images of {size} x {size} were left out")
    if plan.precision != "fp32":
        notes = (*notes, f"forward passes in {plan.precision}")
    measure = partial(
        measure_images, model, modifications=fitting, foreign=plan.foreign, seed=plan.seed
    )
    bar: AbstractContextManager[Tick] = nullcontext(tick or silent)
    if tick is None and progress:
        bar = progress_bar(study_steps(model, feed, plan, len(maps), expensive, threshold_images))
    judges = () if plan.evaluator is None else (plan.evaluator,)
    few = feed.sample(plan.subset, plan.seed)
    on_subset: dict[str, Any] = {}  # fields of `Study`
    columns: dict[str, Tensor] = {}
    with bar as tick, evaluating(model), passes_in(plan.precision, model, *judges):
        # First, as it raises an error for a model that does not apply the map that it shows.
        reliance, encoding = replace_maps(model, feed, plan.seed, objects=not why_not, tick=tick)
        each = measure(feed, tick=tick)
        if expensive:
            on_subset, columns, problems = _compare_maps(
                model,
                few,
                plan,
                maps,
                has_maps=each.has_maps,
                objects=not why_not,
                threshold_images=threshold_images,
                tick=tick,
            )
            on_subset["map_stability"] = {
                kind: measure(few, maps=f, tick=tick).stability for kind, f in maps.items()
            }
            notes = (*notes, *problems)
        mask = measure_mask(model, feed, plan.seed, tick)
    if expensive and each.has_maps:  # in full precision: random layers may leave little contrast
        x = _first_images(model, few, RANDOMISED)
        on_subset["randomised_layers"] = tuple(randomise_layers(model, own_maps, x, seed=plan.seed))
    results = Study(
        model=name,
        images=each.images,
        accuracy=100 * (each.mean("correct") or 0.0),
        stability=each.stability,
        reliance=reliance,
        mask=mask,
        information=_information(each),
        encoding=encoding,
        paper=_paper_scores(name, origin, plan) if origin.get("papers_form") else {},
        own_localisation=OwnLocalisation(
            each.mean("pointing"), each.mean("energy_inside"), each.mean("auroc")
        ),
        classes=each.by_class(origin["class_names"]),
        notes=notes,
        **on_subset,
        **origin,
    )
    return results, each.with_subset(columns) if columns else each


def _check_request(
    model: Classifier, plan: Plan, maps: Mapping[str, ImagesToMaps], expensive: bool
) -> None:
    """Check maps and evaluator before anything is measured."""
    if not isinstance(maps, Mapping) or not all(callable(function) for function in maps.values()):
        raise AibError(
            "maps must be functions by name, each from images [B,3,H,W] to maps [B,h,w], as in "
            'maps={"mine": function}'
        )
    for taken in set(maps) & set(get_args(MapKind)):
        raise AibError(f"maps of the name {taken!r} are aib's own: choose another name")
    if plan.evaluator is not None:
        check_evaluator(plan.evaluator, model, plan.evaluator_name)
    if not expensive and (maps or plan.evaluator):
        raise AibError("maps and an evaluator need the expensive parts, which are left out here")


def _compare_maps(
    model: Classifier,
    few: Batches,
    plan: Plan,
    maps: Mapping[str, ImagesToMaps],
    *,
    has_maps: bool,
    objects: bool,
    threshold_images: Batches | None,
    tick: Tick,
) -> tuple[dict[str, Any], dict[str, Tensor], list[str]]:
    """The fields of `Study` that compare kinds of maps, what they are means of, and why a kind is
    left out."""
    kinds, layer, problems = _possible_kinds(model, few, has_maps)
    judge = None
    if plan.evaluator is not None:
        judge = Judge(plan.evaluator, plan.evaluator_name, seed=plan.seed)
    comparison = compare(
        model,
        few,
        kinds,
        objects=objects,
        functions=maps,
        judge=judge,
        threshold_images=threshold_images,
        seed=plan.seed,
        tick=tick,
    )
    judged = comparison.evaluator
    if judged and (weakness := evaluator_weakness(judged, comparison.subset_images)):
        text = f"{judged.run} cannot judge maps: {weakness}"
        warnings.warn(text, AibWarning, stacklevel=3)
    found = {"gradcam_layer": layer, **vars(comparison)}
    return found, found.pop("per_image"), problems


def _information(each: ImageMetrics) -> Information:
    """What latent and map carry, mean over the images."""
    return Information(
        **{name: each.mean(name) for name in ("kl_bits", "entropy_bits", "energy_passed")},
        perplexity=each.perplexity,
        contrast=each.mean("contrast"),
        flat_maps=each.mean("flat"),
        anchors=each.anchors,
        anchor_shares=each.anchor_shares,
    )


def study_steps(
    model: Classifier,
    feed: Batches,
    plan: Plan,
    maps: int = 0,
    expensive: bool = True,
    threshold_images: Batches | None = None,
) -> int:
    """How many images `study` reports to `tick` at most, for a progress bar."""
    modified = len(plan.modifications)
    steps = feed.num_images * (modified + 2 * model.takes_map + model.takes_mask)
    if expensive:
        kinds = len(map_kinds(True)) + maps
        steps += min(plan.subset, feed.num_images) * (kinds + maps * modified)
        steps += kinds * (threshold_images.num_images if threshold_images else 0)
    return steps


def _paper_scores(name: str, origin: Mapping[str, Any], plan: Plan) -> dict[str, float]:
    """The paper's Table 2 for this model and data, where it has an entry."""
    data = str(origin.get("data", "")).partition(":")[0]
    known = {m: (name, data, m) for m in plan.modifications}
    return {m: PAPER_SCORES[key] for m, key in known.items() if key in PAPER_SCORES}


def _possible_kinds(
    model: Classifier, feed: Batches, has_maps: bool
) -> tuple[list[MapKind], str | None, list[str]]:
    """The kinds of maps to compare, the layer of Grad-CAM, and why a kind is left out."""
    kinds, layer, problems = list(map_kinds(has_maps)), None, []
    if not has_captum():
        why = "Grad-CAM and Integrated Gradients need captum"
        return kinds, None, [str(missing_extra("posthoc", why))]
    x = _first_images(model, feed, 1)
    try:
        layer = gradcam_layer(model, x)
    except AibError as error:
        kinds.remove("gradcam")
        problems.append(str(error))
    try:
        integrated_gradients(partial(model, deterministic=True), x, steps=1)
    except AibError as error:  # no gradient, so none for Grad-CAM either
        kinds, layer = [k for k in kinds if k not in ("gradcam", "integrated_gradients")], None
        problems.append(str(error))
    return kinds, layer, problems


def _first_images(model: Classifier, feed: Batches, count: int) -> Tensor:
    """The first normalised images [n,3,S,S] of a feed."""
    few = feed.subset(torch.arange(min(count, feed.num_images)))
    return model.preprocessing.normalise(torch.cat([batch.images for batch in few]))
