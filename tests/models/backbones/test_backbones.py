"""The networks' parts against their formulas, written out with functions."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aib.models.backbones.vgg import without_bias
from aib.models.backbones.wrn import BottleneckBlock


def lively(module):
    """In evaluation mode, with statistics as training might have left them."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            torch.nn.init.normal_(layer.weight)
            torch.nn.init.normal_(layer.bias)
    return module.eval().requires_grad_(False)


def normed(x, layer):
    return F.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias)


@pytest.mark.parametrize(("c_out", "stride"), [(4, 1), (8, 2)])
def test_a_bottleneck_block_is_its_formula(c_out, stride):
    """The sum is activated, not the branch before it."""
    block, x = lively(BottleneckBlock(4, c_out, stride)), torch.randn(2, 4, 8, 8)
    one, norm1, _, three, norm2, _, last, norm3 = block.body
    y = F.relu(normed(F.conv2d(x, one.weight), norm1))
    y = F.relu(normed(F.conv2d(y, three.weight, None, stride, 1), norm2))
    y = normed(F.conv2d(y, last.weight), norm3)
    shortcut = x
    if c_out != 4:
        conv, norm = block.shortcut
        shortcut = normed(F.conv2d(x, conv.weight, None, stride), norm)
    torch.testing.assert_close(block(x), F.relu(y + shortcut))


def test_skipping_the_bias_before_batchnorm_changes_nothing():
    """Output, gradients and running statistics against the layers one after the other."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 5, 3, 2, padding=1), nn.BatchNorm2d(5)).double().train()
    nn.init.normal_(plain[0].bias)
    nn.init.normal_(plain[1].bias)
    short = deepcopy(plain)
    x = torch.randn(6, 3, 8, 8, dtype=torch.float64)
    for _ in range(2):
        for model, y in ((plain, plain(x)), (short, without_bias(*short, x))):
            model.zero_grad()
            y.pow(3).sum().backward()
    torch.testing.assert_close(without_bias(*short, x), plain(x))
    for (name, value), other in zip(
        plain.state_dict().items(), short.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(value, other, msg=name)
    for expected, found in zip(plain.parameters(), short.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, atol=1e-9, rtol=1e-9)
