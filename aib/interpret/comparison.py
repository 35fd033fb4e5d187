"""Our maps beside others' on the same model and images: where they point, and how faithfully."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from aib.classifier import Classifier
from aib.data import ImageSet
from aib.interpret.maps import make_maps
from aib.interpret.metrics.bootstrap import ratio_interval
from aib.interpret.metrics.controls import centre_gaussian, random_map
from aib.interpret.metrics.faithfulness import deletion_insertion
from aib.interpret.metrics.localise import Localisation
from aib.interpret.per_image import Tick, silent
from aib.interpret.pixels import Feed, Pixels
from aib.interpret.posthoc import completeness, has_captum

Source = Literal["own", "gradcam", "integrated_gradients", "centre", "random"]
STEPS = 16  # of the deletion and insertion curves


@dataclass(frozen=True)
class Comparison:
    """By source of maps; `localisation` is empty where there are no masks."""

    images: int
    localisation: dict[str, dict[str, float]] = field(default_factory=dict)
    faithfulness: dict[str, dict[str, object]] = field(default_factory=dict)


def sources(has_maps: bool) -> tuple[Source, ...]:
    """What a model is compared by: its own maps if it has any, two post-hoc ones, two controls.

    The post-hoc ones need captum, which is an extra.
    """
    own: tuple[Source, ...] = ("own",) if has_maps else ()
    posthoc: tuple[Source, ...] = ("gradcam", "integrated_gradients") if has_captum() else ()
    return (*own, *posthoc, "centre", "random")


def compare(
    model: Classifier,
    feed: Feed,
    named: Sequence[Source],
    *,
    masks: bool,
    seed: int = 0,
    steps: int = STEPS,
    tick: Tick = silent,
) -> Comparison:
    """Localisation (where `masks`) and deletion and insertion for each source of maps."""
    locators = {name: Localisation(seed=seed).to(feed.device) for name in named}
    curves: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in named}
    areas: dict[str, list[Tensor]] = {name: [] for name in named}
    sums: list[Tensor] = []  # what Integrated Gradients sum to, and should: [2,B] each
    deterministic = partial(model, deterministic=True)
    for batch in feed:
        x = model.preprocessing.normalise(batch.images)
        for name in named:
            maps = maps_from(model, x, batch, name, seed, feed.batch_size)
            if masks and batch.masks is not None:
                locators[name].update(maps, batch.masks)
            found = deletion_insertion(deterministic, x, maps, steps=steps, seed=seed)
            curves[name].append((found.deletion.sum(0), found.insertion.sum(0)))
            areas[name].append(torch.stack([found.deletion_area, found.insertion_area], dim=1))
            if name == "integrated_gradients":
                sums.append(torch.stack(completeness(deterministic, x, maps)))
            tick("other maps, deletion and insertion", len(x))
    faithfulness: dict[str, dict[str, object]] = {
        name: _faithfulness(curves[name], torch.cat(areas[name]), seed) for name in named
    }
    if sums:
        total, change = torch.cat(sums, dim=1).double()
        gap = float((total - change).abs().sum() / change.abs().sum())
        faithfulness["integrated_gradients"]["completeness_gap"] = gap
    return Comparison(
        images=len(feed),
        localisation={name: _plain(locators[name]) for name in named} if masks else {},
        faithfulness=faithfulness,
    )


def maps_from(
    model: Classifier, x: Tensor, batch: Pixels, name: Source, seed: int, chunk: int
) -> Tensor:
    """Maps of one source for a batch of normalised images."""
    size = (x.shape[2], x.shape[3])
    if name == "centre":
        return centre_gaussian(len(x), size, device=x.device)
    if name == "random":
        return random_map(batch.index, size, seed=seed)
    return make_maps(model, x, name, chunk=chunk)


def no_masks(data: ImageSet) -> str | None:
    """None if localisation is defined on the data, else the sentence that says why it is not."""
    if data.files is not None and data.files.crops is not None:
        return (
            "localisation is undefined here: the images are cut to the objects' boxes, "
            "so nothing is outside"
        )
    if data.masks is None and data.boxes is None:
        return f"localisation needs masks or boxes, and {data.name} has neither"
    return None


def _plain(locator: Localisation) -> dict[str, float]:
    return {name: float(value) for name, value in locator.compute().items()}


def _faithfulness(
    curves: list[tuple[Tensor, Tensor]], areas: Tensor, seed: int
) -> dict[str, object]:
    low, high = ratio_interval(areas, torch.ones_like(areas), seed=seed)
    mean = areas.double().mean(0)
    deletion, insertion = (
        torch.stack([part[i] for part in curves]).sum(0) / len(areas) for i in (0, 1)
    )
    return {
        "deletion": float(mean[0]),
        "deletion_low": float(low[0]),
        "deletion_high": float(high[0]),
        "insertion": float(mean[1]),
        "insertion_low": float(low[1]),
        "insertion_high": float(high[1]),
        "deletion_curve": deletion.tolist(),
        "insertion_curve": insertion.tolist(),
    }
