"""How forward passes run inside a `with`: evaluation mode, seeded noise, and precision."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from aib.config.validation import Precision

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@contextmanager
def evaluating(*parts: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode; afterwards each layer is back in its own mode."""
    modes = {layer: layer.training for part in parts for layer in part.modules()}
    try:
        for part in parts if any(modes.values()) else ():  # switching takes milliseconds
            part.eval()
        yield
    finally:
        for layer, training in modes.items():
            if layer.training is not training:
                layer.training = training


@contextmanager
def seeded_evaluation(model: nn.Module, seed: int = 0) -> Iterator[None]:
    """Evaluation mode without gradients, its noise from `seed`; both are restored."""
    device = next(model.parameters()).device
    cuda = [device] if device.type == "cuda" else []
    with evaluating(model), torch.no_grad(), torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed)
        yield


def autocast(device: torch.device, precision: Precision) -> Any:
    """A context for forward passes of this precision."""
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, DTYPES[precision])


@contextmanager
def passes_in(precision: Precision, *models: nn.Module) -> Iterator[None]:
    """Run the forward passes of these models in a precision; what surrounds them stays as it is."""
    entered = []

    def enter(model: nn.Module, inputs: Any) -> None:
        entered.append(autocast(next(model.parameters()).device, precision))
        entered[-1].__enter__()

    def leave(*_: Any) -> None:
        entered.pop().__exit__(None, None, None)

    with ExitStack() as hooks:
        for model in models if precision != "fp32" else ():
            hooks.enter_context(model.register_forward_pre_hook(enter))
            hooks.enter_context(model.register_forward_hook(leave, always_call=True))
        yield
