"""Helpers shared by the tests."""

import math

import numpy as np
import torch
from torch import nn

# --- core: images, networks, weights


def images(batch=2, height=32, width=None):
    """Random normalised images; square unless a width is given."""
    return torch.randn(batch, 3, height, width or height)


class SmallNet(nn.Module):
    """A user's own network, for `attach`."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.more = nn.Sequential(nn.Conv2d(4, 6, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(6, 10)

    def forward(self, x):
        return self.fc(self.more(self.features(x)).flatten(1))


class Numbers:
    """Numbers from -1 to 1 that are the same on every machine: PCG64's bits are specified."""

    def __init__(self, seed):
        self.bits = np.random.PCG64(seed)

    def __call__(self, *shape):
        raw = self.bits.random_raw(math.prod(shape))
        return torch.from_numpy(2 * (raw / 2.0**64) - 1).reshape(shape)


@torch.no_grad()
def fill(model, numbers):
    """Weights and running statistics in the order of the state dict; anchors evenly over [0,1]."""
    for name, value in model.state_dict().items():
        if not value.is_floating_point():
            continue
        if name.endswith("anchors"):
            value.copy_(torch.linspace(0, 1, len(value), dtype=torch.float64))
        elif value.dim() > 1:
            value.copy_(numbers(*value.shape) * math.sqrt(2 / value[0].numel()))
        elif name.endswith(("weight", "running_var")):  # of BatchNorm
            value.copy_(1 + numbers(*value.shape) / 2)
        else:
            value.copy_(numbers(*value.shape) / 5)
    return numbers
