"""How a layer's features lie in memory: [B,c,h,w], [B,h,w,c], or tokens [B,n+h*w,c]."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from aib.models.modes import evaluating

MAX_PREFIX = 8  # tokens before those of the grid: a class token, a few registers


class ToGrid(nn.Module):
    """Features in any layout to [B,c,h,w]; tokens before those of the grid are left out."""

    def __init__(self, layout: Literal["nchw", "nhwc", "tokens"], prefix: int = 0, side: int = 0):
        super().__init__()
        self.layout, self.prefix, self.side = layout, prefix, side

    def forward(self, f: Tensor) -> Tensor:
        if self.layout == "nchw":
            return f
        if self.layout == "tokens":
            f = f[:, self.prefix :].unflatten(1, (self.side, self.side))
        return f.permute(0, 3, 1, 2)


def read_grid(shape: Sequence[int]) -> ToGrid | None:
    """The reading of features of this shape; None if they form no square grid."""
    if len(shape) == 4 and shape[2] == shape[3] > 1:
        return ToGrid("nchw")
    if len(shape) == 4 and shape[1] == shape[2] > 1:
        return ToGrid("nhwc")
    if len(shape) == 3:
        side = math.isqrt(shape[1])
        prefix = shape[1] - side**2
        return ToGrid("tokens", prefix, side) if side > 1 and prefix <= MAX_PREFIX else None
    return None


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
    features: dict[str, list[Any]] = {}

    def record(name: str, _layer: nn.Module, _inputs: Any, f: Any) -> None:
        features.setdefault(name, []).append(f)

    with evaluating(network), torch.no_grad(), ExitStack() as hooks:
        for name in _outer_layers(network):
            layer = network.get_submodule(name)
            hooks.enter_context(layer.register_forward_hook(partial(record, name)))
        x = torch.zeros(1, 3, image_size, image_size)
        network(x.to(next(network.parameters(), x)))
    grids = []
    for name, (f, *again) in features.items():
        to_grid = read_grid(f.shape) if isinstance(f, Tensor) and not again else None
        if to_grid is not None:
            _, channels, h, w = to_grid(f).shape
            grids.append(LayerGrid(name, channels, (h, w)))
    return grids


def _outer_layers(module: nn.Module, prefix: str = "") -> Iterator[str]:
    for child, layer in module.named_children():
        name = f"{prefix}{child}"
        yield name
        if not prefix or isinstance(layer, nn.Sequential | nn.ModuleList):
            yield from _outer_layers(layer, f"{name}.")
