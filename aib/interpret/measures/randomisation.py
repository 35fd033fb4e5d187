"""Layer randomisation: does the map depend on what was learnt?

A map that stays the same when the weights beneath it are random shows the input's edges, not the
model. Layers after the map cannot change it: an attention map in the middle of the network keeps
a similarity of 1 until the cascade reaches it.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from aib.evaluation.intervals import finite_or_none
from aib.interpret.maps import own_maps
from aib.interpret.measure import Measure, View
from aib.interpret.measured import LayerChange
from aib.interpret.metrics.similarity import ScaledMaps, centred_cosine, cosine, min_max

MapFunction = Callable[[nn.Module, Tensor], Tensor]


def randomise_layers(
    model: nn.Module, maps: MapFunction, x: Tensor, *, seed: int = 0
) -> list[LayerChange]:
    """Randomise one layer after the other, from the output's end, and compare `maps(model, x)`
    [B,h,w] with itself. The model is not touched: a copy in evaluation mode is.
    """
    model = copy.deepcopy(model).eval()
    # New values are drawn in the order of memory: one layout, so that a seed means the same ones.
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    names = layers_from_output(model, maps, x)
    original = min_max(maps(model, x).detach())
    changes = []
    for position, name in enumerate(names):
        randomise(model.get_submodule(name), seed=seed + position)
        changes.append(_compare(name, original, maps(model, x).detach()))
    return changes


def layers_from_output(model: nn.Module, maps: MapFunction, x: Tensor) -> list[str]:
    """Names of the modules with something of their own to randomise, in the order of a cascade.

    Those that run while the map is made come last run first. Before them come those that do not
    run, last registered first: they come after the map and cannot change it.
    """
    owners = {
        module: name
        for name, module in model.named_modules()
        if next(module.parameters(recurse=False), None) is not None
        or callable(getattr(module, "reset_parameters", None))
    }
    ran: list[nn.Module] = []

    def record(module: nn.Module, *_: Any) -> None:
        ran.append(module)
        if isinstance(module, nn.MultiheadAttention):  # it takes its weights, and does not run it
            ran.append(module.out_proj)

    for owner in owners:  # of a copy: the hooks stay
        owner.register_forward_hook(record)
    maps(model, x)
    first_run = list(dict.fromkeys(ran))  # a module that runs twice counts where it first runs
    behind = [module for module in owners if module not in set(first_run)]
    return [owners[module] for module in [*reversed(behind), *reversed(first_run)]]


def randomise(module: nn.Module, *, seed: int = 0) -> None:
    """Give a module's own parameters new random values, in place.

    Convolutions and linear layers by He et al., which keeps the scale of the signal from layer to
    layer: with PyTorch's own rule a deep network's maps would end up flat. Others by their own
    `reset_parameters`, or from a Gaussian with the mean and standard deviation of each parameter.
    The global generators stay unchanged.
    """
    parameters = list(module.parameters(recurse=False))
    devices = {p.device.index for p in parameters if p.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(devices)):
        # torch.manual_seed would also seed the devices that are not restored afterwards.
        torch.default_generator.manual_seed(seed)
        for device in devices:
            torch.cuda.default_generators[device].manual_seed(seed)
        if isinstance(module, _ConvNd | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
            return
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
            return
        with torch.no_grad():
            for p in parameters:
                std = p.std() if p.numel() > 1 else torch.ones_like(p.sum())
                p.copy_(p.mean() + std * torch.randn_like(p))


def _compare(name: str, original: ScaledMaps, maps: Tensor) -> LayerChange:
    changed = min_max(maps)
    return LayerChange(
        name,
        finite_or_none(cosine(original, changed).nanmean()),
        finite_or_none(centred_cosine(original, changed).nanmean()),
        int((original.flat | changed.flat).sum()),
    )


IMAGES = 64  # at most: it copies and runs the model often


class RandomisationMeasure(Measure):
    """`randomise_layers` on the first images of the subset."""

    title = "random layers"
    needs = frozenset({"maps"})
    subset = True

    def update(self, view: View) -> None:
        if view.first < IMAGES:
            self.columns.add(x=view.x)

    def fields(self) -> dict[str, Any]:
        """`randomised_layers`; in full precision, as random layers may leave little contrast."""
        x = self.columns.whole()["x"][:IMAGES]
        changes = randomise_layers(self.context.model, own_maps, x, seed=self.context.seed)
        return {"randomised_layers": tuple(changes)}
