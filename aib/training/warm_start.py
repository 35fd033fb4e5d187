"""Weights to start a training from: a trained model's, or VGG-16's convolutions at 224 pixels."""

from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from aib.data.specs import IMAGENET_MEAN, IMAGENET_STD
from aib.errors import AibError, first_line
from aib.models.classifier import Classifier
from aib.models.masked import Masked
from aib.models.weights import (
    CONFIG,
    load_tensors,
    read_preprocessing,
    read_tensors,
    unique_tensors,
)

VGG16 = "vgg16:"  # --init vgg16:PATH
SAME_FORM = "; give the model, the image size and the options it was trained with"
LAYERS = "features."  # how torchvision and timm begin the names of VGG's convolutions


@dataclass(frozen=True)
class LoadedWeights:
    """What `load_backbone` or `load_trained` did, by names of tensors."""

    loaded: tuple[str, ...]  # tensors of the model that now hold the file's values
    fresh: tuple[str, ...]  # tensors of the model that keep their random values
    ignored: tuple[str, ...] = ()  # in the file, without a place in the model: its classifier

    def __str__(self) -> str:
        parts, ignored = (
            ", ".join(dict.fromkeys(name.split(".")[0] for name in names))
            for names in (self.fresh, self.ignored)
        )
        text = f"{len(self.loaded)} tensors loaded"
        text += f"; fresh weights in {parts}" if parts else ""
        return text + (f"; ignored {ignored}" if ignored else "")


def load_backbone(model: Classifier, path: str | Path) -> LoadedWeights:
    """Load ImageNet's VGG-16 into a `vgg` model for 224 x 224 images.

    path: a state dict of torchvision's or timm's `vgg16`, as .safetensors, .pth or .npz. Its fully
        connected layers are ignored.

    The model then expects ImageNet's mean and std, and `Settings.lr_backbone` is the learning rate
    of what was loaded.
    """
    path = Path(path)
    prefix, layers = backbone_of(model)
    found = _read(path)
    tensors = {name: value for name, value in found.items() if name.startswith(LAYERS)}
    load_tensors(nn.ModuleDict({LAYERS[:-1]: layers}), tensors, path)
    mark_pretrained(model)
    model.preprocessing = replace(model.preprocessing, mean=IMAGENET_MEAN, std=IMAGENET_STD)
    names = [name for name, _ in model.named_parameters()]
    return LoadedWeights(
        loaded=tuple(name for name in names if name.startswith(prefix)),
        fresh=tuple(name for name in names if not name.startswith(prefix)),
        ignored=tuple(name for name in found if name not in tensors),
    )


def load_trained(model: Classifier, path: Path) -> LoadedWeights:
    """Load a model of the same form, which may have been trained for other classes.

    Only the head and what depends on the number of classes may have another shape; they keep their
    random weights. A masked model also takes the backbone of one without a mask, and its head where
    it fits. The model then expects images normalised as those of the saved one.
    """
    weights, expected = read_tensors(path), unique_tensors(model)
    missing: list[str] = []
    ignored: list[str] = []
    if isinstance(model, Masked) and not any(name.startswith("body.") for name in weights):
        attached = model.recipe["kind"] == "attached"
        parts = {"tail": "body"} if attached else {"stem": "body.0", "tail": "body.1"}
        weights, ignored = _into_body(weights, parts, expected)
        if model.first_pass is not None:  # it sees whole images, as that model did
            weights |= model.first_pass.statistics_in(weights, "body", "first_pass")
        needed = {n for n, _ in model.named_parameters() if n.startswith("body.")}
        missing = [n for n in expected if n not in weights and n not in needed]
    other = [
        name
        for name, value in expected.items()
        if name in weights
        and weights[name].shape != value.shape
        and (name.startswith("head.") or _is_per_class(weights[name], value, model.num_classes))
    ]
    kept = {name: value for name, value in weights.items() if name not in other}
    fresh = (*other, *missing)
    load_tensors(model, kept, path, fresh=fresh, advice=SAME_FORM)
    with suppress(AibError):  # without a config it is not known which images the weights expect
        saved = read_preprocessing(path.with_name(CONFIG))
        model.preprocessing = replace(model.preprocessing, mean=saved.mean, std=saved.std)
    return LoadedWeights(tuple(kept), fresh, tuple(ignored))


def _into_body(
    weights: dict[str, Tensor], parts: dict[str, str], expected: Container[str]
) -> tuple[dict[str, Tensor], list[str]]:
    """The weights of a model without a mask by the names of a masked one, and names without use."""
    kept, ignored = {}, []
    for name, value in weights.items():
        part = next((one for one in parts if name.startswith(f"{one}.")), None)
        if part is not None:
            kept[parts[part] + name.removeprefix(part)] = value
        elif name.startswith("head.") and name in expected:
            kept[name] = value
        else:
            ignored.append(name)
    return kept, ignored


def _is_per_class(saved: Tensor, wanted: Tensor, num_classes: int) -> bool:
    """Whether two shapes differ in nothing but the number of classes."""
    pairs = zip(saved.shape, wanted.shape, strict=False)
    return saved.ndim == wanted.ndim and all(b in (a, num_classes) for a, b in pairs)


def backbone_of(model: Classifier) -> tuple[str, nn.Module]:
    """The convolutions that VGG-16's fit into, and how the names of their parameters begin."""
    recipe = model.recipe
    name, size = str(recipe.get("name", type(model).__name__)), recipe.get("image_size")
    if not name.startswith("vgg") or size != 224:
        what = f"{name} for images of {size}" if size else name
        raise AibError(f"weights of VGG-16 fit the vgg models for images of 224, not {what}")
    prefix = "body.0." if model.takes_mask else "stem."
    return prefix, model.get_submodule(prefix[:-1])


def mark_pretrained(model: Classifier) -> None:
    """Note which parameters are VGG-16's, for `lr_backbone`."""
    prefix, layers = backbone_of(model)
    model.pretrained_names = frozenset(prefix + name for name, _ in layers.named_parameters())


def _read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name; no code in the file is executed."""
    pickled = partial(torch.load, map_location="cpu", weights_only=True)
    readers: dict[str, Callable[[Path], Any]]
    readers = {".npz": np.load, ".safetensors": load_file, ".pth": pickled, ".pt": pickled}
    if path.suffix not in readers:
        raise AibError(f"{path} cannot be read: weights are {', '.join(readers)} files")
    try:
        found = dict(readers[path.suffix](path))
        return {name: torch.as_tensor(value) for name, value in found.items()}
    except Exception as error:  # a damaged file raises any kind
        reason = first_line(error)
        raise AibError(f"{path} cannot be read as weights by name: {reason}") from error
