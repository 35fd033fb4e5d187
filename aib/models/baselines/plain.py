"""The plain network, and what two papers add to it: average pooling, and an attention branch."""

from dataclasses import replace

from torch import Tensor, nn

from aib.config.options import ModelOptions
from aib.models.attention import AttentionParameters
from aib.models.backbones.parts import Embed, Parts, scaled
from aib.models.backbones.vgg import block, conv_bn_relu
from aib.models.backbones.wrn import maps_to_one
from aib.models.bottleneck import AIB
from aib.models.classifier import Classifier
from aib.models.gaussian import widen


def build_plain(
    num_classes: int, options: ModelOptions, parts: Parts, attention: nn.Module | None = None
) -> Classifier:
    """Builder: the backbone with one linear layer to the logits, or also another attention."""
    return AIB(
        parts.stem,
        parts.tail,
        parts.head(num_classes, replace(options, latent_dim=None)),
        num_classes,
        attention=attention,
        modulation="residual",
        profile=options.profile,
        min_size=parts.min_size,
    )


def build_gap(num_classes: int, options: ModelOptions, parts: Parts) -> Classifier:
    """Builder: VGG with global average pooling (Zhou et al., 2016).

    It is cut before its last pool, so that the maps keep their resolution: 8 x 8 positions. It has
    no attention: its class activation map is computed after the decision, and equals Grad-CAM of
    its last convolution.
    """
    c3, c, c_out = (scaled(channels, options.width) for channels in (256, 512, 1024))
    tail = nn.Sequential(
        block(c3, c, 3, pool=True), block(c, c, 3), conv_bn_relu(c, c_out), Embed()
    )
    parts = replace(parts, tail=tail, embedding_dim=c_out, min_size=4)
    return build_plain(num_classes, options, parts)


class AttentionBranch(nn.Module):
    """One map per class, the attention computed from them, and the logits of a second head.

    The second head (a 1 x 1 convolution averaged over positions) has a cross-entropy loss, so
    that the maps which the attention is computed from have to hold evidence for the classes.
    """

    def __init__(self, class_maps: nn.Module, num_classes: int):
        super().__init__()
        self.class_maps = class_maps  # f -> [B,C,h,w]
        self.to_one = maps_to_one(num_classes)  # [B,C,h,w] -> [B,1,h,w]
        self.to_logits = nn.Conv2d(num_classes, num_classes, 1, bias=False)

    def forward(self, f: Tensor) -> AttentionParameters:
        maps = self.class_maps(f)
        mu = widen(self.to_one(maps)).sigmoid().squeeze(1)  # [B,h,w]
        return AttentionParameters(mu, None, self.to_logits(maps).mean((2, 3)))


def build_abn(num_classes: int, options: ModelOptions, parts: Parts) -> Classifier:
    """Builder: attention branch network (Fukui et al., 2019), modulating by f (1 + a)."""
    assert parts.class_maps is not None  # WRN's at 32 x 32
    branch = AttentionBranch(parts.class_maps(num_classes), num_classes)
    return build_plain(num_classes, options, parts, branch)
