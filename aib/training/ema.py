"""A moving average of a model's weights, and BatchNorm's statistics for it."""

from collections.abc import Collection, Iterable
from copy import deepcopy

import torch
import torch.distributed as dist
from torch import Tensor, nn

from aib.models.classifier import Classifier
from aib.models.modes import seeded_evaluation
from aib.models.weights import unique_tensors
from aib.training.freeze import norms_in
from aib.training.metrics import all_reduce


class WeightAverage:
    """average <- decay * average + (1 - decay) * weights, after every step.

    BatchNorm's statistics are averaged too; integer buffers are copied.
    """

    def __init__(self, model: Classifier, decay: float):
        self.decay = decay
        self.model: Classifier = deepcopy(model).eval()

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Include the weights of `model` after one step."""
        mine, theirs = unique_tensors(self.model), unique_tensors(model)  # tied weights once
        smooth = [name for name, value in mine.items() if value.is_floating_point()]
        torch._foreach_lerp_(
            [mine[name] for name in smooth], [theirs[name] for name in smooth], 1 - self.decay
        )
        for name in mine.keys() - set(smooth):
            mine[name].copy_(theirs[name])


def estimate_batch_norm(
    model: Classifier, batches: Iterable[Tensor], kept: Collection[nn.Module] = (), seed: int = 0
) -> None:
    """Set running means and variances to their mean over batches of images and all processes.

    For weights that no training step has used. Every process has to call it. All else is in
    evaluation mode; an evaluator sees random masks, as in training. A first pass of the model
    updates its own statistics, as it puts them in place of the layers'. Layers in `kept` keep
    theirs.
    """
    norms = [norm for norm in norms_in(model) if norm not in kept]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    with seeded_evaluation(model, seed):
        for norm in norms:
            norm.train()
        for number, x in enumerate(batches, 1):
            for norm in norms:
                norm.momentum = 1 / number  # a plain mean; the first batch replaces the old value
            model(x, (1, 1), mask=model.training_mask(x))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    if dist.is_available() and dist.is_initialized():
        for name, value in model.state_dict().items():
            if name.endswith(("running_mean", "running_var")):
                all_reduce(value, dist.ReduceOp.SUM).div_(dist.get_world_size())
