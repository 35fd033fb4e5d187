"""Evaluation mode inside a `with`, also seeded and without gradients."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(*parts: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode; afterwards each layer is back in its own mode."""
    modes = {layer: layer.training for part in parts for layer in part.modules()}
    try:
        for part in parts:
            part.eval()
        yield
    finally:
        for layer, training in modes.items():
            layer.training = training


@contextmanager
def seeded_evaluation(model: nn.Module, seed: int = 0) -> Iterator[None]:
    """Evaluation mode without gradients, its noise from `seed`; then mode and generators as before.

    The same call gives the same result whatever ran before, and changes nothing of what follows.
    """
    device = next(model.parameters()).device
    cuda = [device] if device.type == "cuda" else []
    with evaluating(model), torch.no_grad(), torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed)
        yield
