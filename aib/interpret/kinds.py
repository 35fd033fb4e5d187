"""The kinds of maps that a study compares: the model's own, Grad-CAM, given ones and controls."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from aib.data import Batch, Batches
from aib.errors import AibError, missing_extra
from aib.interpret.maps import ImagesToMaps, own_maps
from aib.interpret.measure import MapMaker
from aib.interpret.metrics.checks import check_finite, count_broken
from aib.interpret.metrics.controls import centre_gaussian, random_map
from aib.interpret.posthoc import gradcam_layer, gradcam_maps, has_captum
from aib.models.classifier import Classifier


def map_makers(
    model: Classifier,
    feed: Batches,
    given: Mapping[str, ImagesToMaps],
    *,
    has_maps: bool,
    seed: int,
) -> tuple[dict[str, MapMaker], str | None, list[str]]:
    """A function for each kind of map, the layer of Grad-CAM, and why it is left out."""
    makers: dict[str, MapMaker] = {
        name: partial(given_maps, function) for name, function in given.items()
    }
    if has_maps:
        makers["own"] = lambda x, batch: own_maps(model, x)
    layer, problems = None, []
    try:
        layer = _usable_layer(model, feed)
        makers["gradcam"] = lambda x, batch: gradcam_maps(model, x, layer=layer)
    except AibError as error:
        problems = [str(error)]
    makers["centre"] = lambda x, batch: centre_gaussian(len(x), _size(x), device=x.device)
    makers["random"] = lambda x, batch: random_map(batch.index, _size(x), seed=seed)
    return {kind: partial(_checked, kind, make) for kind, make in makers.items()}, layer, problems


def _usable_layer(model: Classifier, feed: Batches) -> str:
    """The layer of Grad-CAM, if captum is there and the model has such maps."""
    if not has_captum():
        raise missing_extra("posthoc", "Grad-CAM needs captum")
    x = first_images(model, feed, 1)
    layer = gradcam_layer(model, x)
    gradcam_maps(model, x, layer=layer)  # raises an error where no gradient leads to it
    return layer


def first_images(model: Classifier, feed: Batches, count: int) -> Tensor:
    """The first normalised images [n,3,S,S] of a feed."""
    few = feed.subset(torch.arange(min(count, feed.num_images)))
    return model.preprocessing.normalise(torch.cat([batch.images for batch in few]))


def given_maps(function: ImagesToMaps, x: Tensor, batch: Batch) -> Tensor:
    """Maps [B,h,w] of a caller's function, which may take gradients; each scaled to at most 1.

    A map is flat below a fixed contrast, and the gradient of a probability may be 1e-9 everywhere.
    """
    with torch.enable_grad():
        made = function(x.detach().clone())  # it may write into its argument
    size = list(getattr(made, "shape", ()))
    if len(size) != 3 or size[0] != len(x) or 0 in size:
        raise AibError(f"a function of maps must give [B,h,w] for {len(x)} images, not {size}")
    maps = torch.as_tensor(made).detach().to(x)
    largest = maps.abs().amax((1, 2), keepdim=True)  # [B,1,1]
    return maps / largest.clamp_min(torch.finfo(maps.dtype).tiny)


def _checked(kind: str, make: MapMaker, x: Tensor, batch: Batch) -> Tensor:
    maps = make(x, batch)
    check_finite(int(count_broken(maps)), f"the maps {kind!r}")
    return maps


def _size(x: Tensor) -> tuple[int, int]:
    return x.shape[2], x.shape[3]
