"""What a training step computes."""

import torch
from torch import Tensor, nn

from aib.classifier import Classifier
from aib.loss import aib_loss
from aib.settings import Settings
from aib.training.metrics import TERMS


class Objective(nn.Module):
    """Model and loss in one forward pass: what is compiled, and what data parallelism wraps."""

    def __init__(self, model: Classifier, settings: Settings):
        super().__init__()
        self.model = model
        self.weights = settings.lambda_q, settings.lambda_c, settings.lambda_a

    def forward(self, x: Tensor, y: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        """The loss to descend, and [total, the terms ..., number wrong] to watch."""
        out = self.model(x)
        terms = aib_loss(out, y, beta, *self.weights)
        wrong = (out.logits.detach().argmax(-1) != y).sum()
        values = terms.detached()
        return terms.total, torch.stack([*(values[name] for name in TERMS), wrong.float()])
