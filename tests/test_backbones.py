"""The networks' parts against their formulas, written out with functions."""

import pytest
import torch
import torch.nn.functional as F

import aib
from aib.backbones.vgg import vgg_cifar
from aib.backbones.wrn import BottleneckBlock, PreActivationBlock
from aib.latent import mlp_decoder, relu_decoder


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


@pytest.mark.parametrize(("c_out", "stride"), [(4, 1), (4, 2), (6, 1)])
def test_a_pre_activation_block_is_its_formula(c_out, stride):
    """The identity where sizes stay, otherwise a convolution of the activated input."""
    block, x = lively(PreActivationBlock(4, c_out, stride, 0.3)), torch.randn(2, 4, 8, 8)
    active = F.relu(normed(x, block.bn1))
    inner = F.relu(normed(F.conv2d(active, block.conv1.weight, None, stride, 1), block.bn2))
    same = c_out == 4 and stride == 1
    shortcut = x if same else F.conv2d(active, block.shortcut.weight, None, stride)
    expected = F.conv2d(inner, block.conv2.weight, None, 1, 1) + shortcut
    torch.testing.assert_close(block(x), expected)


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


def test_vggs_embedding_is_activated():
    e = lively(vgg_cifar(1 / 16).tail)(torch.randn(8, 16, 16, 16))
    assert e.shape == (8, 32) and (e >= 0).all() and (e > 0).any()


def test_the_decoders_are_their_formulas():
    z = torch.randn(2, 3, 5, 4)  # any number of leading dimensions
    mlp, plain = mlp_decoder(4, 3).requires_grad_(False), relu_decoder(4, 3).requires_grad_(False)
    hidden = F.relu(z @ mlp[0].weight.T + mlp[0].bias)
    torch.testing.assert_close(mlp(z), hidden @ mlp[2].weight.T + mlp[2].bias)
    torch.testing.assert_close(plain(z), F.relu(z) @ plain[1].weight.T + plain[1].bias)


def test_convolutions_begin_with_a_variance_of_two_by_fan_in():
    """The attention's last one too, whose fan-out would saturate the sigmoid."""
    model = aib.create_model("vgg_aib", width=0.5).requires_grad_(False)
    for layer in (model.attention.trunk, model.stem[1][0][0]):
        fan_in = layer.in_channels * 9
        assert float(layer.weight.var()) == pytest.approx(2 / fan_in, rel=0.25)
        assert not layer.bias.any()
