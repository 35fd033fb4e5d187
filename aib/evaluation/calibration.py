"""Fit the temperature and the threshold of a model's probabilities on held-out images."""

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.models.types import Calibration

COLDEST, HOTTEST = 0.05, 20.0  # limits of the temperature
STEPS = 60  # of the search; each shrinks the interval by a third


def fit_calibration(logits: Tensor, y: Tensor) -> Calibration:
    """Fit the temperature by NLL, and the probability below which half of the decisions are wrong.

    logits [N,C] are of held-out images, y their classes [N], or a teacher's probabilities [N,C].
    """
    if not y.is_floating_point():
        y = F.one_hot(y, logits.shape[1])
    logits, y = logits.double(), y.to(logits.device, torch.float64)
    temperature = fit_temperature(logits, y)
    confidence, prediction = (logits / temperature).softmax(-1).max(-1, keepdim=True)
    return Calibration(temperature, unsure_below(confidence[:, 0], y.gather(1, prediction)[:, 0]))


def fit_temperature(logits: Tensor, y: Tensor) -> float:
    """The temperature of least NLL. NLL is convex in 1 / temperature: a ternary search finds it."""
    low, high = 1 / HOTTEST, 1 / COLDEST
    for _ in range(STEPS):
        third = (high - low) / 3
        left, right = low + third, high - third
        if F.cross_entropy(logits * left, y) <= F.cross_entropy(logits * right, y):
            high = right
        else:
            low = left
    return 2 / (low + high)


def unsure_below(confidence: Tensor, right: Tensor) -> float:
    """The greatest confidence of [N] below which at least half of the decisions are wrong.

    right [N]: of each decision, 0 or 1, or how probable it is. 0 if there is none, and 1 if half of
    all decisions are wrong.
    """
    order = confidence.argsort()
    wrong = (1 - right[order]).cumsum(0)  # of the n least confident decisions
    counts = torch.arange(1, len(order) + 1, device=wrong.device)
    enough = (2 * wrong >= counts).nonzero().flatten()
    if not len(enough):
        return 0.0
    last = int(enough[-1]) + 1
    return float(confidence[order[last]]) if last < len(order) else 1.0
