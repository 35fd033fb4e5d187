"""Fit the temperature and the threshold of a model's probabilities on held-out images."""

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.models.types import Calibration

COLDEST, HOTTEST = 0.05, 20.0  # limits of the temperature
STEPS = 60  # of the search; each shrinks the interval by a third


def fit_calibration(logits: Tensor, y: Tensor) -> Calibration:
    """Fit the temperature by NLL, and the probability below which a decision is unsure.

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
    """The confidence that separates wrong decisions from right ones with the fewest mistakes.

    right [N]: of each decision, 0 or 1, or how probable it is. 0 if no decision is better called
    unsure, and 1 if all are.
    """
    order = confidence.argsort()
    gain = (0.5 - right[order].double()).cumsum(0)  # of calling the n least confident ones unsure
    count = int(gain.argmax()) + 1 if gain.max() > 0 else 0
    if count == 0:
        return 0.0
    return float(confidence[order[count]]) if count < len(order) else 1.0
