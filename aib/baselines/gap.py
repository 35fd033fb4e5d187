"""VGG with global average pooling (Zhou et al., 2016).

It has no attention: its class activation map is computed after the decision, and equals Grad-CAM
of its last convolution.
"""

from dataclasses import replace

from torch import nn

from aib.backbones.parts import Embed, Parts, scaled
from aib.backbones.vgg import block, conv_bn_relu
from aib.baselines.plain import build_plain
from aib.classifier import Classifier
from aib.options import ModelOptions


def build_gap(num_classes: int, options: ModelOptions, parts: Parts) -> Classifier:
    """Builder: VGG with global average pooling.

    Zhou et al. cut VGG before its last pool, so that the maps keep their resolution: 8 x 8
    positions with 1024 channels.
    """
    c3, c, c_out = (scaled(channels, options.width) for channels in (256, 512, 1024))
    tail = nn.Sequential(
        block(c3, c, 3, pool=True), block(c, c, 3), conv_bn_relu(c, c_out), Embed()
    )
    parts = replace(parts, tail=tail, embedding_dim=c_out, min_size=4)
    return build_plain(num_classes, options, parts)
