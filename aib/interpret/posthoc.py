"""Post-hoc maps by captum, for any classifier.

Every function takes images x [B,C,H,W] and gives maps [B,H,W] for the class `target` (the predicted
one by default). They attribute the raw class score, as published: the logit before any softmax.
"""

import importlib.util
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from aib.config.validation import PosthocMethod, check
from aib.errors import AibError, missing_extra
from aib.interpret.metrics.checks import check_batch, class_logits, resize_maps
from aib.models.modes import evaluating
from aib.models.networks.layers import find_layer
from aib.models.types import Output, widen

# Grad-CAM reads the last layer with at least this many positions per side: VGG's last convolution
# at 32 x 32 has a single position, which makes no map.
MIN_POSITIONS = 4
# Parts of our models that make the maps: beside the path from image to decision, not on it.
_BESIDE = ("attention", "contexts", "compatibilities", "project", "propose")

# A module, or any callable around one (such as one for deterministic passes). It returns
# logits [B,classes], or an object that has them as `.logits`, or one of our models' outputs.
Network = Callable[[Tensor], Any]
Target = int | Tensor | None


def gradcam(model: Network, x: Tensor, layer: nn.Module | str, target: Target = None) -> Tensor:
    """Grad-CAM of the target at `layer` (a module or its name), bilinear to the size of x.

    Channels weighted by their mean gradient, summed, negative values set to 0.
    """
    module = layer
    if not isinstance(module, nn.Module):
        assert isinstance(model, nn.Module)
        module = find_layer(model, str(layer))
    outputs: list[Any] = []
    with (
        _prepared(model, x, target) as (attr, forward, inputs, classes),
        module.register_forward_hook(lambda _m, _x, f: outputs.append(getattr(f, "shape", None))),
    ):
        method = attr.LayerGradCam(forward, module)
        maps = method.attribute(inputs, target=classes, relu_attributions=True)
    once = isinstance(maps, Tensor) and maps.ndim == 4 and len(maps) == len(x)
    if not once or _grid_layout(outputs[0], x, least=1) == "nhwc":
        raise AibError("Grad-CAM needs a layer that gives [B,C,h,w], once per image")
    return resize_maps(widen(maps.detach()[:, 0]), (x.shape[2], x.shape[3]))


def integrated_gradients(
    model: Network,
    x: Tensor,
    target: Target = None,
    *,
    steps: int = 32,
    baseline: Tensor | None = None,
    chunk: int | None = None,
) -> Tensor:
    """Integrated Gradients from `baseline` (zeros: the mean colour of normalised images), signed.

    Summed over channels. `chunk` is how many images (of B x steps) go through the model at once.
    """
    with _prepared(model, x, target) as (attr, forward, inputs, classes):
        values = attr.IntegratedGradients(forward).attribute(
            inputs,
            baselines=0 if baseline is None else baseline.to(x).expand_as(x),
            target=classes,
            n_steps=steps,
            internal_batch_size=chunk,
        )
    return values.detach().sum(dim=1).float()


def posthoc_maps(
    model: nn.Module,
    x: Tensor,
    method: PosthocMethod,
    target: Target = None,
    *,
    layer: str | None = None,
    chunk: int | None = None,
) -> Tensor:
    """Maps [B,H,W] of one of our models, from deterministic passes.

    `layer` is Grad-CAM's, `gradcam_layer` by default; `chunk` is that of `integrated_gradients`.
    """
    check("method", method, PosthocMethod)
    forward = partial(model, deterministic=True)
    with evaluating(model):
        if method == "gradcam":
            module = find_layer(model, layer or gradcam_layer(model, x))
            return gradcam(_classifier_pass(model, x), x, module, target)
        return integrated_gradients(forward, x, target, chunk=chunk)


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
    ran: list[tuple[str, str]] = []  # layers with a grid or tokens, and how these lie

    def record(module: nn.Module, _inputs: Any, output: Any) -> None:
        layout = _grid_layout(output.shape, x) if isinstance(output, Tensor) else None
        if layout:
            ran.append((names[module], layout))

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


def _grid_layout(f: torch.Size, x: Tensor, least: int = MIN_POSITIONS) -> str | None:
    """How features lie, if they have enough positions; of readings that fit as well, the first.

    A square image has a square grid; of another image the grid with the nearest proportions fits.
    """
    if len(f) == 3:
        return "tokens" if f[1] >= least**2 else None
    if len(f) != 4:
        return None
    height, width = x.shape[2:]
    off = {
        layout: abs(math.log(h * width / (w * height)))
        for layout, (h, w) in (("nchw", f[2:]), ("nhwc", f[1:3]))
        if min(h, w) >= least and (h == w or height != width)
    }
    return min(off, key=off.__getitem__, default=None)


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


@contextmanager
def _prepared(
    model: Network, x: Tensor, target: Target
) -> Iterator[tuple[ModuleType, Network, Tensor, Tensor]]:
    """captum.attr, a function to class scores, inputs with gradients, one class each.

    In evaluation mode.
    """
    try:
        import captum.attr
    except ImportError as error:
        raise missing_extra("posthoc", "post-hoc maps need captum") from error
    check_batch(x)

    def forward(images: Tensor) -> Tensor:
        return class_scores(model(images), len(images))

    modules = (model,) if isinstance(model, nn.Module) else ()
    with evaluating(*modules), torch.inference_mode(False), torch.enable_grad():
        inputs = x.detach().clone().requires_grad_()
        if target is None:
            with torch.no_grad():
                classes = forward(inputs).argmax(dim=1)
        else:
            classes = torch.as_tensor(target, device=x.device).expand(len(x))
        try:
            yield captum.attr, forward, inputs, classes
        except RuntimeError as error:  # of torch.autograd.grad
            if "does not require grad" in str(error) or "not have been used" in str(error):
                raise AibError(
                    "no gradient leads from this model's class scores back to the pixels, so there "
                    "are no maps from gradients (Grad-CAM, Integrated Gradients)"
                ) from error
            raise
