"""The layers of a network: by name, those that features can be read from, and a default."""

import difflib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from aib.classifier import evaluating
from aib.errors import AibError
from aib.networks.layout import read_layout

# The default layer `at` by the network's name; the first pattern that fits counts. It is the last
# one with a stride of 16: 14 x 14 positions of 224 x 224 pixels. In a transformer of one grid it is
# the last block. A number below zero counts a layer's children from their end.
LAYERS: dict[str, dict[str, str]] = {
    "timm": {
        "*mobilenetv3_small*": "blocks.3",
        "*mobilenetv3*": "blocks.4",
        "mobilenetv2*": "blocks.4",
        "*mnasnet*": "blocks.4",
        "efficientnet*": "blocks.4",
        "tf_efficientnet*": "blocks.4",
        "convnext*": "stages.2",
        "swinv2_cr_*": "stages.2",
        "swin*": "layers.2",
        "regnet*": "s3",
        "densenet*": "features.denseblock3",
        "vgg*": "features.-2",
        "inception_v3": "Mixed_6e",
        "resnet[0-9abr]*": "layer3",
        "resnest*": "layer3",
        "resnext*": "layer3",
        "seresnet*": "layer3",
        "seresnext*": "layer3",
        "wide_resnet*": "layer3",
        "vit_*": "blocks.-1",
        "deit_*": "blocks.-1",
        "deit3_*": "blocks.-1",
        "beit*": "blocks.-1",
        "eva02_*": "blocks.-1",
    },
    "torchvision": {
        "mobilenet_v3_small": "features.8",
        "mobilenet_v3_large": "features.12",
        "mobilenet_v2": "features.13",
        "mnasnet*": "layers.11",
        "efficientnet*": "features.5",
        "convnext*": "features.5",
        "swin*": "features.5",
        "maxvit*": "blocks.2",
        "regnet*": "trunk_output.block3",
        "shufflenet*": "stage3",
        "densenet*": "features.denseblock3",
        "alexnet": "features.-2",
        "vgg*": "features.-2",
        "googlenet": "inception4e",
        "inception_v3": "Mixed_6e",
        "resnet*": "layer3",
        "resnext*": "layer3",
        "wide_resnet*": "layer3",
        "vit_*": "encoder.layers.-1",
    },
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

    def recorder(name: str) -> Any:
        def record(_layer: nn.Module, _inputs: Any, f: Any) -> None:
            shapes.setdefault(name, []).append(list(f.shape) if isinstance(f, Tensor) else [])

        return record

    names = _outer_layers(network)
    hooks = [network.get_submodule(one).register_forward_hook(recorder(one)) for one in names]
    try:
        with evaluating(network), torch.no_grad():
            network(torch.zeros(1, 3, image_size, image_size))
    finally:
        for hook in hooks:
            hook.remove()
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


def _outer_layers(network: nn.Module) -> list[str]:
    names: list[str] = []

    def descend(module: nn.Module, prefix: str) -> None:
        for child, layer in module.named_children():
            name = f"{prefix}{child}"
            names.append(name)
            if not prefix or isinstance(layer, nn.Sequential | nn.ModuleList):
                descend(layer, f"{name}.")

    descend(network, "")
    return names
