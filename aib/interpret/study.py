"""The study of one model's maps: every measurement of this package, on one set of images."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aib.classifier import Classifier, evaluating
from aib.data import Batches
from aib.errors import AibError, missing_extra
from aib.interpret.comparison import Comparison, compare, map_kinds, no_masks
from aib.interpret.maps import own_maps
from aib.interpret.metrics.mask_use import mask_use
from aib.interpret.metrics.perturb import Modification, modifications
from aib.interpret.metrics.reliance import Reliance, map_reliance
from aib.interpret.metrics.sanity import randomise_layers
from aib.interpret.per_image import ImageMetrics, Tick, measure_images, silent
from aib.interpret.posthoc import gradcam_layer, has_captum
from aib.interpret.results import Information, MaskUse, OwnLocalisation, Study
from aib.masked import Masked
from aib.paper import paper_score

NO_MAP_TO_REPLACE = "not measured: the model has no single attention map that could be replaced"
RANDOMISED = 64  # images of the layer randomisation at most: it copies and runs the model often


@dataclass(frozen=True)
class Plan:
    """What is measured, the same for every model that is compared."""

    modifications: Mapping[str, Modification] = field(default_factory=modifications)
    foreign: Tensor | None = None  # uint8 [M,3,h,w]
    subset: int = 256  # images of the expensive parts
    seed: int = 0

    def __post_init__(self) -> None:
        if self.subset < 2:
            raise AibError(f"the subset needs at least 2 images, not {self.subset}")


def study(
    model: Classifier,
    feed: Batches,
    plan: Plan,
    *,
    name: str = "model",
    origin: Mapping[str, Any] | None = None,
    notes: tuple[str, ...] = (),
    expensive: bool = True,
    tick: Tick = silent,
) -> tuple[Study, ImageMetrics]:
    """Measure one model on the images of `feed`; `expensive` adds the parts on the subset.

    `origin` holds the fields of `Study` that say where it comes from.
    """
    origin = {"seed": plan.seed, **(origin or {})}
    why_not = no_masks(feed.data)
    notes = (*([why_not] if why_not else []), *notes)
    comparison, layer, changes = Comparison(), None, []
    with evaluating(model):
        each = measure_images(
            model, feed, plan.modifications, foreign=plan.foreign, seed=plan.seed, tick=tick
        )
        if expensive:
            few = feed.sample(plan.subset, plan.seed)
            if has_captum():
                layer = gradcam_layer(model, _first_images(model, few, 1))
            else:
                why = "Grad-CAM and Integrated Gradients need captum"
                notes = (*notes, str(missing_extra("posthoc", why)))
            kinds = map_kinds(each.has_maps)
            comparison = compare(model, few, kinds, masks=not why_not, seed=plan.seed, tick=tick)
            if each.has_maps:
                x = _first_images(model, few, RANDOMISED)
                changes = randomise_layers(model, own_maps, x, seed=plan.seed)
        reliance = measure_reliance(model, feed, plan.seed, tick)
        mask = measure_mask(model, feed, plan.seed, tick)
    class_names = tuple(origin.get("class_names", ()))
    results = Study(
        model=name,
        images=each.images,
        accuracy=100 * (each.mean("correct") or 0.0),
        stability=each.stability,
        reliance=reliance,
        mask=mask,
        information=_information(each),
        paper=_paper_scores(name, origin, plan) if origin.get("papers_form") else {},
        own_localisation=OwnLocalisation(
            each.mean("pointing"), each.mean("energy_inside"), each.mean("auroc")
        ),
        subset_images=comparison.images,
        gradcam_layer=layer,
        localisation=comparison.localisation,
        faithfulness=comparison.faithfulness,
        randomised_layers=tuple(changes),
        classes=each.by_class(class_names),
        notes=notes,
        **origin,
    )
    return results, each


def measure_reliance(
    model: Classifier, feed: Batches, seed: int, tick: Tick = silent
) -> Reliance | str:
    """Whether the decision uses the map; a sentence where the model has no map to replace."""
    if not model.takes_map:
        return NO_MAP_TO_REPLACE

    def predict(x: Tensor, attention_map: Tensor | None) -> Tensor:
        return model(x, deterministic=True, attention_map=attention_map).logits

    batches = _batches(model, feed, "replaced maps", tick)
    return map_reliance(predict, partial(own_maps, model), batches, seed=seed)


def measure_mask(
    model: Classifier, feed: Batches, seed: int, tick: Tick = silent
) -> MaskUse | None:
    """Whether closed means closed; None for a model without a mask of its own."""
    if not isinstance(model, Masked) or not model.takes_map:  # it may only take masks
        return None
    return mask_use(model, _batches(model, feed, "changed masks", tick), seed=seed)


def _batches(
    model: Classifier, feed: Batches, what: str, tick: Tick
) -> Iterator[tuple[Tensor, Tensor]]:
    """Normalised images and labels, with progress."""
    for batch in feed:
        yield model.preprocessing.normalise(batch.images), batch.labels
        tick(what, len(batch.images))


def _information(each: ImageMetrics) -> Information:
    return Information(
        kl_bits=each.mean("kl_bits"),
        entropy_bits=each.mean("entropy_bits"),
        perplexity=each.perplexity,
        energy_passed=each.mean("energy_passed"),
        contrast=each.mean("contrast"),
        flat_maps=each.mean("flat"),
        anchors=each.anchors,
        anchor_shares=each.anchor_shares,
    )


def _paper_scores(name: str, origin: Mapping[str, Any], plan: Plan) -> dict[str, float]:
    """The paper's Table 2 for this model and data, where it has an entry."""
    data = str(origin.get("data", "")).partition(":")[0]
    found = {m: paper_score(name, data, m) for m in plan.modifications}
    return {m: score for m, score in found.items() if score is not None}


def _first_images(model: Classifier, feed: Batches, count: int) -> Tensor:
    """The first normalised images [n,3,S,S] of a feed."""
    parts: list[Tensor] = []
    for batch in feed:
        parts.append(batch.images)
        if sum(map(len, parts)) >= count:
            break
    return model.preprocessing.normalise(torch.cat(parts)[:count])
