"""The first stages of any network, cut from a copy of it: what propose="copy" runs on images."""

from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from aib.errors import AibError, first_line
from aib.models.modes import evaluating
from aib.models.networks.grid import ToGrid, layer_grids, read_grid


def cut_stages(network: nn.Module, at: str, image_size: int) -> tuple[nn.Module, int, int]:
    """A copy of the network up to its layer `at`: images to two grids of features.

    The coarse grid is that of `at`, the fine one of the last layer before with twice its size.
    Returns the copy and the channels of the two. Its tensors keep their names.
    """
    x = torch.randn(1, 3, image_size, image_size, generator=torch.Generator().manual_seed(0))
    x = x.to(next(network.parameters(), x))
    grids = layer_grids(network, image_size)
    coarse = next((grid for grid in grids if grid.name == at), None)
    if coarse is None:
        raise AibError(f"{at!r} is no outer layer with a grid of features")
    twice = (2 * coarse.grid[0], 2 * coarse.grid[1])
    fine = next((grid for grid in reversed(grids) if grid.grid == twice), None)
    if fine is None:
        raise AibError(f"no layer before {at!r} has a grid of twice its size")
    stages = deepcopy(network)
    for name in _layers_after(stages, at, x):
        stages.set_submodule(name, nn.Identity())
    kept = _Features()
    for which, name in (("fine", fine.name), ("coarse", at)):
        stages.get_submodule(name).register_forward_hook(partial(kept.keep, which))
    stages.register_forward_hook(kept.give)
    try:
        with evaluating(stages), torch.no_grad():
            features = stages(x)
    except Exception as error:  # code of other people, without some of its layers
        raise AibError(f"the network cannot be cut after {at!r} ({first_line(error)})") from error
    if [f.shape[1] for f in features] != [fine.channels, coarse.channels]:
        raise AibError(f"the network cannot be cut after {at!r}")
    return stages, fine.channels, coarse.channels


class _Features:
    """Hooks that keep the features of two layers, and give them as the network's output."""

    def __init__(self) -> None:
        self.features: dict[str, Tensor] = {}

    def keep(self, which: str, layer: nn.Module, inputs: Any, f: Tensor) -> None:
        self.features[which] = _grid(f)

    def give(self, network: nn.Module, inputs: Any, output: Any) -> tuple[Tensor, Tensor]:
        return self.features.pop("fine"), self.features.pop("coarse")


def _grid(f: Tensor) -> Tensor:
    """Features in any layout as [B,c,h,w]; a later layer may change them in place."""
    to_grid = read_grid(f.shape) or ToGrid("nchw")
    return to_grid(f).clone()


def _layers_after(network: nn.Module, at: str, x: Tensor) -> list[str]:
    """The outermost layers that begin only after `at` has ended, by name."""
    began: dict[str, bool] = {}  # whether `at` had ended when the layer first ran
    ended: list[bool] = []

    def begin(name: str, *_: Any) -> None:
        began.setdefault(name, bool(ended))

    with evaluating(network), torch.no_grad(), ExitStack() as hooks:
        for name, layer in network.named_modules():
            hooks.enter_context(layer.register_forward_pre_hook(partial(begin, name)))
        end = network.get_submodule(at).register_forward_hook(lambda *_: ended.append(True))
        hooks.enter_context(end)
        network(x)
    later = [name for name, late in began.items() if late]
    return [name for name in later if not any(name.startswith(f"{one}.") for one in later)]
