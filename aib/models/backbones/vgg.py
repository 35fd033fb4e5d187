"""VGG: the 32 x 32 form with BatchNorm, a tiny one, and VGG16's convolutions for 224 x 224."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aib.config.options import ModelOptions
from aib.models.backbones.parts import Embed, MaskedDefaults, Parts, Stages, scaled
from aib.models.backbones.propose import StagesOf
from aib.models.latent import mlp_decoder


class ConvBNReLU(nn.Sequential):
    """Convolution, BatchNorm, ReLU; training on a GPU skips the convolution's bias."""

    folds = (("0", "1"),)  # pairs for `fold_batch_norm`

    def forward(self, x: Tensor) -> Tensor:
        conv, norm, relu = self
        if not (x.is_cuda and norm.training and type(norm) is nn.BatchNorm2d):
            return super().forward(x)
        if any(layer._forward_hooks or layer._forward_pre_hooks for layer in (conv, norm)):
            return super().forward(x)  # a hook has to see the tensor between them
        assert isinstance(conv, nn.Conv2d)
        return relu(without_bias(conv, norm, x))


def without_bias(conv: nn.Conv2d, norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """norm(conv(x)) in training mode, without adding the bias: less memory traffic.

    BatchNorm subtracts the batch's mean, and with it the bias, whose gradient is zero. Only the
    running mean has to include it.
    """
    assert conv.bias is not None and norm.running_mean is not None
    assert norm.num_batches_tracked is not None and norm.momentum is not None
    bias = conv.bias.detach()
    y = conv._conv_forward(x, conv.weight, None)
    mean = norm.running_mean - bias
    shift = norm.bias + 0 * conv.bias  # so that the bias gets a gradient of zero, not None
    y = F.batch_norm(y, mean, norm.running_var, norm.weight, shift, True, norm.momentum, norm.eps)
    with torch.no_grad():
        norm.running_mean.copy_(mean + bias)
        norm.num_batches_tracked += 1
    return y


def conv_bn_relu(c_in: int, c_out: int, kernel: int = 3) -> nn.Sequential:
    """ConvBNReLU; the redundant bias stays, because the paper's parameter counts include it."""
    return ConvBNReLU(
        nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2), nn.BatchNorm2d(c_out), nn.ReLU()
    )


def block(c_in: int, c_out: int, depth: int, pool: bool = False) -> nn.Sequential:
    """`depth` convolutions, then optionally a 2 x 2 max-pool."""
    convs = [conv_bn_relu(c_in if i == 0 else c_out, c_out) for i in range(depth)]
    return nn.Sequential(*convs, *([nn.MaxPool2d(2)] if pool else []))


def cifar_stem(width: float) -> nn.Sequential:
    """The first three blocks, pooled once at the end: f has 16 x 16 positions at 32 x 32 pixels."""
    c1, c2, c3 = scaled(64, width), scaled(128, width), scaled(256, width)
    return nn.Sequential(block(3, c1, 2), block(c1, c2, 2), block(c2, c3, 3, pool=True))


def cifar_tail_blocks(width: float) -> tuple[nn.Sequential, nn.Sequential, nn.Sequential]:
    """The remaining convolutions: to 8 x 8, to 4 x 4, to 1 x 1."""
    c3, c = scaled(256, width), scaled(512, width)
    last = nn.Sequential(block(c, c, 1, pool=True), block(c, c, 1, pool=True))
    return block(c3, c, 3, pool=True), block(c, c, 3, pool=True), last


def vgg_cifar(options: ModelOptions) -> Parts:
    """16 layers for 32 x 32 images. The attention sits at 16 x 16 positions."""
    width = options.width
    f, c = scaled(256, width), scaled(512, width)
    return Parts(
        stem=cifar_stem(width),
        tail=nn.Sequential(*cifar_tail_blocks(width), nn.Conv2d(c, c, 1), nn.ReLU(), Embed()),
        feature_channels=f,
        embedding_dim=c,
        attention_trunk=lambda num_classes: nn.Conv2d(f, 1, 3, padding=1),
        decoder=mlp_decoder,
        latent_dim=256,
        num_anchors=20,
        min_size=32,
        masked=MaskedDefaults(proposal_width=width),
    )


def tiny(options: ModelOptions) -> Parts:
    """Seven convolutions, which two CPU cores train in minutes; the attention sits at 8 x 8.

    At 16 x 16 the receptive field of such a stem is too small, and the map follows the edges. A
    masked model that looks twice gets a cheaper stem.
    """
    width = options.width
    depth = 1 if options.propose == "twice" else 2
    c1, c2, c3 = scaled(16, width), scaled(32, width), scaled(64, width)
    return Parts(
        stem=nn.Sequential(
            block(3, c1, 1, pool=True), block(c1, c2, depth, pool=True), block(c2, c3, 2)
        ),
        tail=nn.Sequential(
            nn.MaxPool2d(2), conv_bn_relu(c3, c3), conv_bn_relu(c3, c3, kernel=1), Embed()
        ),
        feature_channels=c3,
        embedding_dim=c3,
        attention_trunk=lambda num_classes: nn.Conv2d(c3, 1, 3, padding=1),
        decoder=mlp_decoder,
        latent_dim=32,
        num_anchors=20,
        min_size=8,
        masked=MaskedDefaults(proposal_width=0.25 * width, strided=True, hidden=scaled(32, width)),
    )


def vgg16(options: ModelOptions) -> Parts:
    """VGG16's convolutions without BatchNorm and without the last pool, for 224 x 224 images."""
    layers: list[nn.Module] = []
    c_in = 3
    for group, (channels, depth) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]):
        if group:
            layers.append(nn.MaxPool2d(2))
        for _ in range(depth):
            c_out = scaled(channels, options.width)
            layers += [nn.Conv2d(c_in, c_out, 3, padding=1), nn.ReLU()]
            c_in = c_out
    grid = options.pool_size or 3
    stem = nn.Sequential(*layers)
    stride_8 = max(i for i, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d))
    return Parts(
        stem=stem,
        tail=Embed(grid),
        feature_channels=c_in,
        embedding_dim=c_in * grid**2,
        attention_trunk=lambda num_classes: _deep_trunk(c_in),
        shallow_trunk=lambda num_classes: nn.Conv2d(c_in, 1, 3, padding=1),
        decoder=mlp_decoder,
        latent_dim=256,
        num_anchors=20,
        min_size=16,
        masked=MaskedDefaults(4, "twice", options.width, bottleneck=False),
        stages=Stages(lambda: StagesOf(deepcopy(stem), stride_8), (c_in, c_in)),
    )


def _deep_trunk(c: int) -> nn.Sequential:
    convs = [layer for _ in range(3) for layer in (nn.Conv2d(c, c, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*convs, nn.Conv2d(c, 1, 3, padding=1))
