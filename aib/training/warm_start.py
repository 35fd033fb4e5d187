"""Weights to start a training from: a trained model's, or those of ImageNet from a file."""

from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor, nn

from aib.data.specs import IMAGENET_MEAN, IMAGENET_STD, class_names
from aib.errors import AibError
from aib.models.backbones.propose import CopyProposal
from aib.models.classifier import Classifier
from aib.models.latent import LinearHead
from aib.models.masked import Masked
from aib.models.weights import (
    CONFIG,
    load_tensors,
    read_preprocessing,
    read_tensors,
    unique_tensors,
)

FAMILIES = {"vgg16": "vgg", "lite0": "lite0", "lite2": "lite2"}  # --init FAMILY:PATH: backbone
COPY = "propose.trunk.stages"  # of the network's first layers, in a model that looks with one
SAME_FORM = "; give the model, size and options of its training"
VGG_LAYERS = "features."  # how torchvision and timm begin the names of VGG's convolutions


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
    """Load ImageNet's VGG-16 or EfficientNet-Lite into a model for 224 x 224 images.

    path: a state dict, as .safetensors, .pth or .npz. For the `vgg` models torchvision's or timm's
        `vgg16`, whose fully connected layers are ignored. For `lite0` and `lite2` timm's
        `tf_efficientnet_lite0` or that of the package efficientnet-lite-pytorch, which has other
        names in the same order; the head is loaded if the model has as many classes.

    A masked model that looks with a copy of its first layers gets their weights, too. The model
    then expects pixels normalised as for these weights, and `Settings.lr_backbone` is the learning
    rate of what was loaded.
    """
    path = Path(path)
    found = read_tensors(path)
    prefix, network = backbone_of(model)
    if model.recipe["name"].startswith("vgg"):
        kept = {name: value for name, value in found.items() if name.startswith(VGG_LAYERS)}
        load_tensors(nn.ModuleDict({VGG_LAYERS[:-1]: network}), kept, path)
        model.preprocessing = replace(model.preprocessing, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        ignored = [name for name in found if name not in kept]
    else:
        ignored = _load_lite(model, network, found, path)
    copy_to_proposal(model, prefix)
    prefixes = (prefix, f"{COPY}.", *(["head."] if _keeps_head(model) else []))
    names = [name for name, _ in model.named_parameters()]
    model.pretrained_names = frozenset(name for name in names if name.startswith(prefixes))
    return LoadedWeights(
        loaded=tuple(name for name in names if name in model.pretrained_names),
        fresh=tuple(name for name in names if name not in model.pretrained_names),
        ignored=tuple(ignored),
    )


def _load_lite(
    model: Classifier, network: nn.Module, found: dict[str, Tensor], path: Path
) -> list[str]:
    """Load an EfficientNet-Lite, and its head where it fits; return the names without use."""
    head = [name for name in found if name.startswith(("classifier.", "_fc."))]
    own = [name for name in found if name not in head]
    counters = {name for name in network.state_dict() if name.endswith("num_batches_tracked")}
    if "conv_stem.weight" in found:
        kept = {name: found[name] for name in own}
    elif len(own) == len(network.state_dict()):  # the same order, other names
        kept = dict(zip(network.state_dict(), (found[name] for name in own), strict=True))
    else:
        count = len(network.state_dict())
        raise AibError(f"{path} is of another network: {len(own)} tensors and a head, not {count}")
    load_tensors(network, kept, path, fresh=counters - kept.keys())
    if not _keeps_head(model):
        return head
    values = {name.rpartition(".")[2]: found[name] for name in head}
    load_tensors(model.get_submodule("head"), values, path)
    if not model.preprocessing.class_names:
        model.preprocessing = replace(model.preprocessing, class_names=class_names(1000))
    return []


def _keeps_head(model: Classifier) -> bool:
    """Whether the head is a Linear for ImageNet's classes, as that of EfficientNet-Lite."""
    head = getattr(model, "head", None)
    lite = str(model.recipe.get("name")).startswith("lite")
    return lite and isinstance(head, LinearHead) and head.norm is None and head.out_features == 1000


def copy_to_proposal(model: Classifier, prefix: str) -> None:
    """Give the copy that finds the map the weights of the network that it copies."""
    trunk = getattr(model.propose, "trunk", None) if isinstance(model, Masked) else None
    if isinstance(trunk, CopyProposal):
        trunk.copy_from(model.get_submodule(prefix.removesuffix(".")))


def load_trained(model: Classifier, path: Path) -> LoadedWeights:
    """Load a model of the same form, which may have been trained for other classes.

    Only the head and what depends on the number of classes may have another shape; they keep their
    random weights. A masked model also takes the backbone of one without a mask, and its head where
    it fits. The model then expects images normalised as those of the saved one.
    """
    loaded = start_from(model, read_tensors(path), path)
    with suppress(AibError):  # without a config it is not known which images the weights expect
        saved = read_preprocessing(path.with_name(CONFIG))
        model.preprocessing = replace(model.preprocessing, mean=saved.mean, std=saved.std)
    return loaded


def start_from(model: Classifier, weights: dict[str, Tensor], path: Path) -> LoadedWeights:
    """Give the model weights that were read from `path`, as `load_trained` says."""
    expected = unique_tensors(model)
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
    if missing:
        copy_to_proposal(model, "body" if model.recipe["kind"] == "attached" else "body.0")
    copied = f"{COPY}." if missing else ()
    names = (name for name, _ in model.named_parameters())
    model.pretrained_names = frozenset(n for n in names if n in kept or n.startswith(copied))
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


def is_backbone(init: str) -> bool:
    """Whether this is FAMILY:PATH, weights of ImageNet in a file."""
    return init.partition(":")[0] in FAMILIES


def backbone_of(model: Classifier) -> tuple[str, nn.Module]:
    """The part that ImageNet's weights fit into, and how the names of its parameters begin."""
    name, size = str(model.recipe.get("name", type(model).__name__)), model.recipe.get("image_size")
    if size != 224 or not any(name.startswith(family) for family in FAMILIES.values()):
        what = f"{name} for images of {size}" if size else name
        raise AibError(
            f"weights of ImageNet fit the vgg and lite models for images of 224, not {what}"
        )
    prefix = "body.0." if model.takes_mask else "stem."
    return prefix, model.get_submodule(prefix[:-1])
