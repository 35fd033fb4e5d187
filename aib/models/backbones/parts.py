"""A backbone for the models: two modules, and the sizes where they meet."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from aib.config.options import ModelOptions, Propose
from aib.config.profiles import Initialisation
from aib.models.backbones.propose import ScoreLayer, ZeroConv
from aib.models.latent import LinearHead, VariationalHead, make_head


@dataclass(frozen=True)
class MaskedDefaults:
    """What a masked model of this backbone has where its options do not say."""

    halvings: int = 1  # of the image's side, down to a separate proposal's map
    propose: Propose = "separate"
    proposal_width: float = 1.0  # of a separate proposal's channels
    hidden: int = 128  # channels of the layer with which "twice" reads its features
    strided: bool = False  # a separate proposal starts with a halving
    layer: str = ""  # of Sequential(stem, tail), where "twice" reads its features; "": the stem
    channels: int | None = None  # of those features; None for the stem's
    noise_std: float = 1.0
    head_norm: bool = True  # without a bottleneck: BatchNorm before the linear layer
    bottleneck: bool = True  # False: BatchNorm and one linear layer, unless latent_dim is given


@dataclass(frozen=True)
class Stages:
    """The first stages of a stem, for a copy: a module of images to features at strides 8 and 16.

    Its tensors have the names that they have in the stem.
    """

    make: Callable[[], nn.Module]  # x -> (f [B,c8,h/8,w/8], f [B,c16,h/16,w/16])
    channels: tuple[int, int]  # c8, c16


@dataclass(frozen=True)
class Parts:
    """stem: image -> f [B,c,h,w]; tail: f -> embedding [B,d]; and the parts between and after."""

    stem: nn.Module
    tail: nn.Module
    feature_channels: int  # c
    embedding_dim: int  # d
    attention_trunk: Callable[[int], nn.Module]  # number of classes -> (f -> [B,1,h,w])
    decoder: Callable[[int, int], nn.Module]  # K, C -> (z -> logits)
    latent_dim: int  # K
    num_anchors: int  # Q
    min_size: int  # the smallest image that the strides do not reduce to nothing
    class_maps: Callable[[int], nn.Module] | None = None  # number of classes -> (f -> [B,C,h,w])
    shallow_trunk: Callable[[int], nn.Module] | None = None  # released code, without anchors
    masked: MaskedDefaults = MaskedDefaults()
    stages: Stages | None = None
    # Mean and std of pixels, the same for every channel, where the family has its own.
    statistics: tuple[float, float] | None = None

    def head(self, num_classes: int, options: ModelOptions) -> VariationalHead | LinearHead:
        """The backbone's head, with a bottleneck unless `latent_dim` is None."""
        latent_dim, norm = options.latent_dim, options.head_norm
        return make_head(self.embedding_dim, num_classes, latent_dim, self.decoder, norm=norm)


class Embed(nn.Module):
    """Pool to size x size and flatten, so that any input size gives the same embedding size."""

    def __init__(self, size: int = 1):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(size)

    def forward(self, f: Tensor) -> Tensor:
        return self.pool(f).flatten(1)


def scaled(channels: int, width: float) -> int:
    """Number of channels at this width, at least 1."""
    return max(1, round(channels * width))


def init_weights(module: nn.Module, how: Initialisation = "he") -> None:
    """Initialise the weights; layers not named below keep PyTorch's default.

    he: convolutions normal by fan-in, because the attention's last one has one output channel: by
    fan-out its weights would saturate the sigmoid before training begins.
    he_fan_out: the released code's for WRN, which zeroes the biases of linear layers only.
    xavier: the released code's for VGG, which also samples the scales of BatchNorm.
    """
    if any(weight.is_meta for weight in module.parameters()):
        return  # weights are loaded next, and sampling "meta" ones imports the compiler: seconds
    for layer in module.modules():
        if isinstance(layer, ScoreLayer | ZeroConv):
            layer.reset_parameters()
        elif how == "xavier" and isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight)
        elif how == "xavier" and isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight, gain=math.sqrt(2))
            _zero(layer.bias)
        elif isinstance(layer, nn.Conv2d):
            fan: Literal["fan_in", "fan_out"] = "fan_in" if how == "he" else "fan_out"
            nn.init.kaiming_normal_(layer.weight, mode=fan, nonlinearity="relu")
            if how == "he":
                _zero(layer.bias)
        elif how == "he_fan_out" and isinstance(layer, nn.Linear):
            _zero(layer.bias)


def _zero(bias: Tensor | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)
