"""Evaluators: plain classifiers trained on random masks, which judge maps that they never saw.

A masked model and its map were trained together, so that the map may encode the class. An
evaluator (EVAL-X, Jethani et al. 2021) has the same form but learnt from random masks: what it
decides from the pixels that a map keeps is evidence in them, not a code of the map.
"""

from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aib.config.options import ModelOptions
from aib.errors import AibError
from aib.models.backbones.parts import Parts
from aib.models.classifier import Classifier
from aib.models.latent import LinearHead, VariationalHead
from aib.models.masked import Masked, check_given
from aib.models.types import Given, Output, Sampling

# Cells per side of the random masks, from large blobs to small ones. Every fourth mask is of single
# pixels, so that the evaluator has seen grainy maps and the random control as well.
GRIDS = (4, 8, 16)


class Evaluator(Masked):
    """body and head of a masked model; the mask is given, random in training, else open."""

    takes_map = False  # a mask is all it takes

    def __init__(
        self,
        body: nn.Module,
        head: VariationalHead | LinearHead,
        num_classes: int,
        **options: Any,  # of Masked
    ):
        super().__init__(body, head, nn.Identity(), num_classes, **options)  # proposes nothing

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        """The forward pass under the mask given; else under random masks or on whole images."""
        if given.mask is not None:
            m = check_given("mask", given.mask, x, x.shape[2:])
        elif self.training:
            m = self.training_mask(x)
        else:
            m = torch.ones_like(x[:, 0])
        return self.classify(x, m, sampling)

    def training_mask(self, x: Tensor) -> Tensor:
        """Random masks."""
        return random_masks(len(x), x.shape[2:], device=x.device)


def build_evaluator(num_classes: int, options: ModelOptions, parts: Parts) -> Classifier:
    """Builder: what judges maps. The masked form's body and head, for random masks."""
    return Evaluator(
        nn.Sequential(parts.stem, parts.tail),
        parts.head(num_classes, options),
        num_classes,
        noise_std=options.noise_std or 1.0,
        profile=options.profile,
        min_size=parts.min_size,
    )


def random_masks(
    count: int, size: tuple[int, ...], *, device: torch.device | str | None = None
) -> Tensor:
    """Random masks [B,H,W] of 0 and 1, with an area uniform in (0, 1].

    Noise on a grid of one of four scales is enlarged and thresholded at a quantile.
    """
    scales = [
        F.interpolate(
            torch.randn(count, 1, grid, grid, device=device),
            size=size,
            mode="bilinear",
            align_corners=True,  # otherwise the borders hold ties, and the area is not exact
        )
        for grid in GRIDS
    ]
    noise = torch.cat([*scales, torch.randn(count, 1, *size, device=device)], dim=1)  # [B,4,H,W]
    scale = torch.randint(noise.shape[1], (count, 1, 1), device=device)
    values = noise.flatten(2).take_along_dim(scale, dim=1)[:, 0]  # [B,H*W]
    pixels = values.shape[1]
    closed = (pixels * torch.rand(count, 1, device=device)).long().clamp(max=pixels - 1)
    threshold = values.sort(dim=1).values.gather(1, closed)  # [B,1]
    return (values >= threshold).float().unflatten(1, size)


def check_evaluator(evaluator: nn.Module, model: Classifier, name: str = "the evaluator") -> None:
    """Raise an error unless this is an evaluator for the same images and classes as the model's."""
    if not isinstance(evaluator, Evaluator):
        how = "make an evaluator with `aib train PRESET --evaluator`"
        raise AibError(f"{name} was not trained on random masks: {how}")
    theirs, ours = (
        {"num_classes": one.num_classes, **asdict(one.preprocessing)} for one in (evaluator, model)
    )
    if not (evaluator.preprocessing.class_names and model.preprocessing.class_names):
        theirs["class_names"] = ours["class_names"]  # known of one of them at most
    for field, value in ours.items():
        if theirs[field] != value:
            differ = f"{field} is {theirs[field]!r:.40}, and {value!r:.40} for the model"
            raise AibError(f"{name} is for other images: {differ}")
