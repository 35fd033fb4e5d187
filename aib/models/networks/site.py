"""Where attention is attached: a copy of the network without its head, and one of its layers."""

from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from aib.config.validation import Count, check
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, first_line
from aib.models.networks.by_name import build_network
from aib.models.networks.layers import find_layer
from aib.models.networks.layout import ToGrid, image_readings, read_layout
from aib.models.networks.probe import describe, probe_features


class Site(NamedTuple):
    """A network without its head, and the layer whose features give the map."""

    network: nn.Module
    at: str
    to_grid: ToGrid  # of its features
    channels: int  # of the grid
    embedding_dim: int  # of what the head took


def resolve_network(
    backbone: nn.Module | str, pretrained: bool, download: bool, num_classes: int
) -> nn.Module:
    """The network given, or the one of this name."""
    if isinstance(backbone, str):
        return build_network(
            backbone, pretrained=pretrained, download=download, num_classes=num_classes
        )
    if not isinstance(backbone, nn.Module):
        raise AibError(f"backbone must be a network (nn.Module) or its name, not {backbone!r}")
    if pretrained:
        raise AibError("pretrained is for networks by name; give your network its weights itself")
    return backbone


def copy_network(network: nn.Module) -> nn.Module:
    """A copy that can be changed: the caller's network stays as it is."""
    kind = type(network).__name__
    if isinstance(network, nn.DataParallel | DistributedDataParallel):
        raise AibError(f"{kind} wraps a network: attach to the one inside, its `.module`")
    if hasattr(network, "_orig_mod"):  # torch.compile
        raise AibError("attach to the network before it is compiled, its `._orig_mod`")
    if isinstance(network, torch.jit.ScriptModule):
        raise AibError(
            "TorchScript does not let layers be replaced: attach to the network that was scripted"
        )
    if any(is_lazy(p) for p in network.parameters()):
        raise AibError(f"{kind} has lazy layers: pass a batch through it first, which creates them")
    if any(p.is_meta for p in network.parameters()):
        raise AibError(f"{kind} has no weights yet: it is on the meta device; load them first")
    try:
        return deepcopy(network)
    except (RuntimeError, TypeError) as error:  # a lock, or a weight that another tensor computes
        raise AibError(
            f"{kind} cannot be copied ({first_line(error)}); of weight_norm and spectral_norm take "
            "those in torch.nn.utils.parametrizations"
        ) from error


def choose_size(
    image_size: int | None, given: Preprocessing | None, own: Preprocessing | None
) -> int:
    """The size given, or that of the preprocessing, given or the network's own."""
    if image_size is None:
        policy = given or own
        return 224 if policy is None else policy.image_size
    if given is not None and given.image_size != image_size:
        raise AibError(
            f"image_size is {image_size}, and preprocessing says {given.image_size}: leave one of "
            "them out"
        )
    check("image_size", image_size, Count)
    return image_size


def find_site(
    network: nn.Module,
    at: str,
    head: str,
    image_size: int,
    num_classes: int,
    reading: dict[str, Any] | None,
) -> Site:
    """Remove the head, and look at the features of the layer `at`; auxiliary heads get the classes.

    Without a `reading` the features must be [B,c,h,w].
    """
    embedding_dim = _remove_head(network, head)
    f, grown, auxiliary = probe_features(deepcopy(network), at, head, image_size, reading is None)
    for name in auxiliary:  # the last layers of auxiliary heads
        old = find_layer(network, name)
        assert isinstance(old, nn.Linear)
        _replace(network, name, nn.Linear(old.in_features, num_classes).to(old.weight))
    to_grid = _read_grid(f, grown, at, image_size, reading)
    return Site(network, at, to_grid, to_grid(f).shape[1], embedding_dim)


def _remove_head(network: nn.Module, head: str) -> int:
    """Replace the Linear layer `head` by an Identity; return the size of its input."""
    classifier = find_layer(network, head)
    if not isinstance(classifier, nn.Linear):
        raise AibError(f"the head {head!r} must be a Linear layer, not {type(classifier).__name__}")
    _replace(network, head, nn.Identity())
    return classifier.in_features


def _read_grid(
    f: Tensor, grown: list[int] | None, at: str, image_size: int, reading: dict[str, Any] | None
) -> ToGrid:
    """How the features at the layer `at` become [B,c,h,w]; without a `reading` they must be it."""
    if reading is None:
        if [one.layout for one in image_readings(f.shape, grown)] == ["nhwc"]:
            raise AibError(
                f"the layer {at!r} gives channels last, {describe(f)} for 2 images of "
                f"{image_size} x {image_size}, and attach needs [B, c, h, w]: choose a layer after "
                "the network has moved its channels to axis 1, such as 'permute' in torchvision's "
                "Swin, or add masked=True, which takes both"
            )
        return ToGrid("nchw")
    try:
        to_grid = read_layout(f.shape, grown, image_size, **reading)
    except AibError as error:
        raise AibError(f"the layer {at!r}: {error}") from error
    if to_grid(f)[0, 0].numel() == 1:
        raise AibError(
            f"the layer {at!r} gives no grid of features but one position; choose a layer before "
            "the network pools"
        )
    return to_grid


def _replace(network: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(find_layer(network, parent), leaf, layer)
