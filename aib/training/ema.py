"""A moving average of a model's weights."""

from copy import deepcopy

import torch
from torch import nn

from aib.classifier import Classifier


class WeightAverage:
    """average <- decay * average + (1 - decay) * weights, after every step.

    BatchNorm's statistics are averaged too; integer buffers are copied.
    """

    def __init__(self, model: Classifier, decay: float):
        self.decay = decay
        self.model: Classifier = deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Include the weights of `model` after one step."""
        mine, theirs = self.model.state_dict(), model.state_dict()
        smooth = [name for name, value in mine.items() if value.is_floating_point()]
        torch._foreach_lerp_(
            [mine[name] for name in smooth], [theirs[name] for name in smooth], 1 - self.decay
        )
        for name in mine.keys() - set(smooth):
            mine[name].copy_(theirs[name])
