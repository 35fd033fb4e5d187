"""The layers of a network: by name, those that features can be read from, and a default."""

import difflib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from aib.errors import AibError
from aib.models.modes import evaluating
from aib.models.networks.layout import read_layout

# The default layer `at`, and the names of the networks that have it; the first that fits counts.
# It is the last one with a stride of 16: 14 x 14 positions of 224 x 224 pixels. In a transformer of
# one grid it is the last block. A number below zero counts a layer's children from their end.
DEFAULTS = {
    "timm": {
        "blocks.3": "*mobilenetv3_small*",
        "blocks.4": "*mobilenetv3* mobilenetv2* *mnasnet* efficientnet* tf_efficientnet*",
        "stages.2": "convnext* swinv2_cr_*",
        "layers.2": "swin*",
        "s3": "regnet*",
        "features.denseblock3": "densenet*",
        "features.-2": "vgg*",
        "Mixed_6e": "inception_v3",
        "layer3": "resnet[0-9abr]* resnest* resnext* seresnet* seresnext* wide_resnet*",
        "blocks.-1": "vit_* deit_* deit3_* beit* eva02_*",
    },
    "torchvision": {
        "features.8": "mobilenet_v3_small",
        "features.12": "mobilenet_v3_large",
        "features.13": "mobilenet_v2",
        "layers.11": "mnasnet*",
        "features.5": "efficientnet* convnext* swin*",
        "blocks.2": "maxvit*",
        "trunk_output.block3": "regnet*",
        "stage3": "shufflenet*",
        "features.denseblock3": "densenet*",
        "features.-2": "alexnet vgg*",
        "inception4e": "googlenet",
        "Mixed_6e": "inception_v3",
        "layer3": "resnet* resnext* wide_resnet*",
        "encoder.layers.-1": "vit_*",
    },
}
LAYERS = {  # by name
    library: {name: at for at, names in layers.items() for name in names.split()}
    for library, layers in DEFAULTS.items()
}


def find_layer(network: nn.Module, name: str) -> nn.Module:
    """A layer by its dotted name; the error for an unknown name lists the closest ones."""
    layers = dict(network.named_modules())
    if name in layers:
        return layers[name]
    close = difflib.get_close_matches(name, layers, n=5, cutoff=0.4)
    close = close or [known for known, _ in network.named_children()][:5]
    raise AibError(
        f"{type(network).__name__} has no layer {name!r}; close to it: {', '.join(close)}"
    )


def name_from_start(network: nn.Module, name: str) -> str:
    """Resolve negative numbers in a layer's name: `blocks.-1` is the last block."""
    parts: list[str] = []
    for part in name.split("."):
        if part.startswith("-") and part[1:].isdigit():
            inside = find_layer(network, ".".join(parts)).named_modules(remove_duplicate=False)
            children = [one for one, _ in inside if one and "." not in one]
            part = children[int(part)] if int(part) >= -len(children) else part
        parts.append(part)
    return ".".join(parts)


def last_linear(network: nn.Module) -> str:
    """Name of the last Linear layer: in a classifier, the one that computes the logits."""
    names = [name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not names:
        raise AibError(
            f"{type(network).__name__} has no Linear layer to replace; wrap the network so that it "
            "ends in one"
        )
    return names[-1]


@dataclass(frozen=True)
class LayerGrid:
    """A layer that gives a grid of features: its name, channels and grid."""

    name: str
    channels: int
    grid: tuple[int, int]


def layer_grids(network: nn.Module, image_size: int) -> list[LayerGrid]:
    """The outer layers whose features form a grid, for images of this size, in their order.

    Layers inside a block are left out: a skip connection may go around them.
    """
    shapes: dict[str, list[list[int]]] = {}

    def record(name: str, _layer: nn.Module, _inputs: Any, f: Any) -> None:
        shapes.setdefault(name, []).append(list(f.shape) if isinstance(f, Tensor) else [])

    with evaluating(network), torch.no_grad(), ExitStack() as hooks:
        for name in _outer_layers(network):
            layer = network.get_submodule(name)
            hooks.enter_context(layer.register_forward_hook(partial(record, name)))
        network(torch.zeros(1, 3, image_size, image_size))
    found = []
    for name, calls in shapes.items():
        if len(calls) > 1 or len(calls[0]) not in (3, 4):
            continue
        try:
            to_grid = read_layout(calls[0], None, image_size)
        except AibError:
            continue
        _, channels, h, w = to_grid(torch.empty(calls[0], device="meta")).shape
        if h * w > 1:
            found.append(LayerGrid(name, channels, (h, w)))
    return found


def _outer_layers(module: nn.Module, prefix: str = "") -> Iterator[str]:
    for child, layer in module.named_children():
        name = f"{prefix}{child}"
        yield name
        if not prefix or isinstance(layer, nn.Sequential | nn.ModuleList):
            yield from _outer_layers(layer, f"{name}.")
