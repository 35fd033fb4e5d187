"""Grad-CAM by captum, for any classifier; `study` takes the maps of other methods by `maps=`.

It attributes the raw score of the class `target` (the predicted one by default), as published: the
logit before any softmax.
"""

import importlib.util
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from aib.errors import AibError, missing_extra
from aib.interpret.metrics.checks import class_logits, resize_maps
from aib.models.gaussian import widen
from aib.models.modes import evaluating
from aib.models.networks.grid import read_grid
from aib.models.networks.layers import find_layer
from aib.models.types import Output

# Grad-CAM reads the last layer with at least this many positions per side: VGG's last convolution
# at 32 x 32 has a single position, which makes no map.
MIN_POSITIONS = 4
# Parts of our models that make the maps: beside the path from image to decision, not on it.
_BESIDE = ("attention", "contexts", "compatibilities", "project", "propose")

NO_GRADIENT = "no gradient leads from this model's class scores to its features: no Grad-CAM"
# A module, or any callable around one (such as one for deterministic passes). It returns
# logits [B,classes], or an object that has them as `.logits`, or one of our models' outputs.
Network = Callable[[Tensor], Any]
Target = int | Tensor | None


def gradcam(model: Network, x: Tensor, layer: nn.Module | str, target: Target = None) -> Tensor:
    """Grad-CAM of the target at `layer` (a module or its name), bilinear to the size of x.

    Channels weighted by their mean gradient, summed, negative values set to 0. In evaluation mode.
    """
    try:
        from captum.attr import LayerGradCam
    except ImportError as error:
        raise missing_extra("posthoc", "Grad-CAM needs captum") from error
    modules = (model,) if isinstance(model, nn.Module) else ()
    module = layer
    if not isinstance(module, nn.Module):
        assert isinstance(model, nn.Module)
        module = find_layer(model, str(layer))
    outputs: list[Any] = []

    def forward(images: Tensor) -> Tensor:
        return class_scores(model(images), len(images))

    with evaluating(*modules), torch.inference_mode(False), torch.enable_grad():
        inputs = x.detach().clone().requires_grad_()
        with torch.no_grad():
            classes = forward(inputs).argmax(dim=1) if target is None else target
        classes = torch.as_tensor(classes, device=x.device).expand(len(x))
        record = module.register_forward_hook(lambda _m, _x, f: outputs.append(f))
        try:
            maps = LayerGradCam(forward, module).attribute(
                inputs, target=classes, relu_attributions=True
            )
        except RuntimeError as error:  # of torch.autograd.grad
            if "does not require grad" in str(error) or "not have been used" in str(error):
                raise AibError(NO_GRADIENT) from error
            raise
        finally:
            record.remove()
    once = isinstance(maps, Tensor) and maps.ndim == 4 and len(maps) == len(x)
    if not once or ((grid := read_grid(outputs[0].shape)) and grid.layout != "nchw"):
        raise AibError("Grad-CAM needs a layer that gives [B,C,h,w], once per image")
    return resize_maps(widen(maps.detach()[:, 0]), (x.shape[2], x.shape[3]))


def gradcam_maps(
    model: nn.Module, x: Tensor, target: Target = None, layer: str | None = None
) -> Tensor:
    """Grad-CAM [B,H,W] of one of our models, at `gradcam_layer` by default; no noise."""
    module = find_layer(model, layer or gradcam_layer(model, x))
    with evaluating(model):
        return gradcam(_classifier_pass(model, x), x, module, target)


def gradcam_layer(model: nn.Module, x: Tensor) -> str:
    """The last layer on the path to the decision with an output [B,c,h,w] of at least 4 x 4.

    A network whose features lie otherwise is an error: captum would sum over the wrong axes.
    """
    parts = (getattr(model, name, None) for name in _BESIDE)
    beside = {m for part in parts if isinstance(part, nn.Module) for m in part.modules()}
    scripted = torch.jit.ScriptModule  # does not show its layers
    names = {
        m: name
        for name, m in model.named_modules()
        if name and m not in beside and not isinstance(m, scripted)
    }
    ran: list[tuple[str, str]] = []  # layers with a grid, and how their features lie

    def record(module: nn.Module, _inputs: Any, output: Any) -> None:
        to_grid = read_grid(output.shape) if isinstance(output, Tensor) else None
        if to_grid is not None and to_grid(output).shape[2] >= MIN_POSITIONS:
            ran.append((names[module], to_grid.layout))

    with evaluating(model), torch.no_grad(), ExitStack() as hooks:
        forward = _classifier_pass(model, x[:1])
        for module in names:
            hooks.enter_context(module.register_forward_hook(record))
        forward(x[:1])
    runs = Counter(name for name, _ in ran)
    once = [one for one in ran if runs[one[0]] == 1]  # a shared ReLU runs at several depths
    grids = [one for one in once if one[1] != "tokens"]
    embeds = len(grids) == 1 and once[-1] != grids[0]  # a transformer has one, before its tokens
    if not grids or embeds or grids[-1][1] != "nchw":
        raise AibError(
            f"Grad-CAM needs a layer with features [B,c,h,w] of at least {MIN_POSITIONS} x "
            f"{MIN_POSITIONS}, and this model has none"
        )
    return grids[-1][0]


def _classifier_pass(model: nn.Module, x: Tensor) -> Network:
    """A deterministic pass of the layers that decide on x, each of which runs once.

    A masked model is given its own mask. It then makes no proposal, for which the same layers may
    have run before ("twice"), and Grad-CAM reads the pass that sees the masked image.
    """
    mask = None
    if getattr(model, "takes_mask", False):
        with torch.no_grad():
            mask = model(x, deterministic=True).mask[0]  # [B,H,W]
    return partial(model, deterministic=True, mask=mask)


def class_scores(result: Any, count: int) -> Tensor:
    """Raw class scores [B,C] of `count` images: the mean of our models' sample logits, or logits.

    `Output.logits` are log-probabilities in profile `paper`, and their gradient also depends on
    the other classes.
    """
    return class_logits(result.average("logits") if isinstance(result, Output) else result, count)


def has_captum() -> bool:
    """Whether captum is installed."""
    return importlib.util.find_spec("captum") is not None
