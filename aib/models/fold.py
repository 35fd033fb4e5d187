"""Fold BatchNorm into the convolutions before it: the same decisions in less time."""

from collections.abc import Iterator
from itertools import pairwise

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from aib.models.classifier import Classifier


def fold_batch_norm(model: Classifier) -> None:
    """Fold, in place, every BatchNorm that reads a convolution's output which nothing else reads.

    For a model in evaluation mode that is only run: afterwards it cannot be trained or saved. Left
    alone are networks of others, which may read any layer, and those whose first pass has
    statistics of its own.
    """
    if model.recipe["kind"] != "named" or getattr(model, "first_pass", None) is not None:
        return
    for block in list(model.modules()):
        for before, name in _pairs(block):
            conv, norm = block.get_submodule(before), block.get_submodule(name)
            if not (isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)):
                continue
            if norm.training or norm.running_mean is None or norm.running_var is None:
                continue
            statistics = norm.running_mean, norm.running_var, norm.eps
            conv.weight, conv.bias = fuse_conv_bn_weights(
                conv.weight, conv.bias, *statistics, norm.weight, norm.bias
            )
            block.register_module(name, nn.Identity())


def _pairs(block: nn.Module) -> Iterator[tuple[str, str]]:
    """Names of two layers, the second of which alone reads the first."""
    yield from getattr(block, "folds", ())
    if type(block) is nn.Sequential:
        yield from pairwise(block._modules)
