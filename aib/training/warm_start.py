"""Weights to start a training from: a trained model's, or VGG-16's convolutions at 224 pixels."""

import zipfile
from collections.abc import Callable, Container, Iterable
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
    WEIGHTS,
    load_tensors,
    read_preprocessing,
    read_tensors,
    shapes,
    unique_tensors,
)

VGG16 = "vgg16:"  # --init vgg16:PATH
SAME_FORM = (
    "; give the model, the image size and the options it was trained with, or name --model without "
    "--init to start from random weights"
)
LAYERS = "features."  # how torchvision and timm begin the names of VGG's convolutions


@dataclass(frozen=True)
class LoadedWeights:
    """What `load_backbone` or `load_trained` did, by names of tensors."""

    path: Path
    loaded: tuple[str, ...]  # tensors of the model that now hold the file's values
    fresh: tuple[str, ...]  # tensors of the model that keep their random values
    ignored: tuple[str, ...] = ()  # in the file, without a place in the model: its classifier

    def __str__(self) -> str:
        parts, ignored = (
            ", ".join(dict.fromkeys(name.split(".")[0] for name in names))
            for names in (self.fresh, self.ignored)
        )
        source = self.path.parent if self.path.name == WEIGHTS else self.path  # a run's folder
        text = f"{source.name}: {len(self.loaded)} tensors loaded"
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
    if not tensors:
        raise AibError(
            f"{path} has no weights of VGG-16: it holds {len(found)} tensors and none is named "
            f"like {LAYERS}0.weight"
        )
    load_tensors(nn.ModuleDict({LAYERS[:-1]: layers}), tensors, path)
    mark_pretrained(model)
    model.preprocessing = replace(model.preprocessing, mean=IMAGENET_MEAN, std=IMAGENET_STD)
    names = [name for name, _ in model.named_parameters()]
    return LoadedWeights(
        path,
        loaded=tuple(name for name in names if name.startswith(prefix)),
        fresh=tuple(name for name in names if not name.startswith(prefix)),
        ignored=tuple(name for name in found if name not in tensors),
    )


def load_trained(model: Classifier, path: Path) -> LoadedWeights:
    """Load a model of the same form, which may have been trained for other classes.

    Only the head and what depends on the number of classes may have another shape; they keep their
    random weights. A masked model also takes the backbone of one without a mask, and its head where
    it fits.
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
    other = [n for n, v in expected.items() if n in weights and weights[n].shape != v.shape]
    wrong = [
        n
        for n in other
        if not n.startswith("head.")
        and not _is_per_class(weights[n], expected[n], model.num_classes)
    ]
    if wrong:
        name = wrong[0]
        more = f" (and {len(wrong) - 1} more tensors differ)" if len(wrong) > 1 else ""
        raise AibError(
            f"{path} does not fit the model: {shapes(name, weights[name], expected[name])}{more}"
            + SAME_FORM
        )
    kept = {name: value for name, value in weights.items() if name not in other}
    fresh = (*other, *missing)
    load_tensors(model, kept, path, fresh=fresh, advice=SAME_FORM)
    with suppress(AibError):  # without a config it is not known which images the weights expect
        saved = read_preprocessing(path.with_name(CONFIG))
        model.pretrained_statistics = (saved.mean, saved.std) if saved.mean else None
    return LoadedWeights(path, tuple(kept), fresh, tuple(ignored))


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


def check_frozen(layers: Iterable[str], fresh: Iterable[str]) -> None:
    """Raise an error if a layer that is not trained would keep random weights."""
    fresh = [name for name in fresh if not name.startswith("quantizer.")]  # even levels
    for layer in layers:
        inside = [name for name in fresh if name.startswith(f"{layer}.")]
        if inside:
            raise AibError(
                f"--freeze {layer} would keep random weights, such as {inside[0]}: leave it out, "
                "or start from weights that have it (--init, --pretrained)"
            )


def backbone_of(model: Classifier) -> tuple[str, nn.Module]:
    """The convolutions that VGG-16's fit into, and how the names of their parameters begin."""
    recipe = model.recipe
    name, size = str(recipe.get("name", type(model).__name__)), recipe.get("image_size")
    if not name.startswith("vgg") or size != 224:
        what = f"{name} for images of {size}" if size else name
        raise AibError(
            "weights of VGG-16 fit the vgg models for images of 224, such as vgg_aib_masked with "
            f"image_size=224, not {what}"
        )
    prefix = "body.0." if model.takes_mask else "stem."
    return prefix, model.get_submodule(prefix[:-1])


def mark_pretrained(model: Classifier) -> None:
    """Note which parameters are pretrained, for `lr_backbone`, and on which kind of images."""
    prefix, layers = backbone_of(model)
    model.pretrained_names = frozenset(prefix + name for name, _ in layers.named_parameters())
    model.pretrained_statistics = IMAGENET_MEAN, IMAGENET_STD


def check_statistics(model: Classifier) -> str | None:
    """A warning if images are not normalised as the pretrained weights expect."""
    mean, std = model.preprocessing.mean, model.preprocessing.std
    expected = model.pretrained_statistics
    if expected is None or not mean or (mean, std) == expected:
        return None
    return (
        f"warning: the pretrained layers expect images normalised with mean {expected[0]} and std "
        f"{expected[1]}, and this data set has {mean} and {std}"
    )


def _read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name; no code in the file is executed."""
    pickled = partial(torch.load, map_location="cpu", weights_only=True)
    readers: dict[str, Callable[[Path], Any]]
    readers = {".npz": _read_npz, ".safetensors": load_file, ".pth": pickled, ".pt": pickled}
    if not path.is_file():
        raise AibError(f"no weights at {path}: name a file of VGG-16, such as vgg16_imagenet.npz")
    if path.suffix not in readers:
        raise AibError(f"{path} cannot be read: weights are {', '.join(readers)} files")
    try:
        found = readers[path.suffix](path)
    except Exception as error:  # a damaged file raises any kind
        reason = first_line(error)
        raise AibError(f"{path} is damaged or not a {path.suffix} file: {reason}") from error
    if not isinstance(found, dict) or not all(isinstance(v, Tensor) for v in found.values()):
        raise AibError(f"{path} is not a state dict: a plain dictionary of tensors by name")
    return found


def _read_npz(path: Path) -> dict[str, Tensor]:
    if not zipfile.is_zipfile(path):  # numpy would take a single array, too
        raise ValueError("truncated")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
