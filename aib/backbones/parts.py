"""A backbone as the models see it: two modules and the sizes where they meet."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from aib.attention import ClassMaps


@dataclass(frozen=True)
class Parts:
    """stem: image -> f [B,c,h,w]; tail: f -> embedding [B,d]; and what the paper puts between."""

    stem: nn.Module
    tail: nn.Module
    feature_channels: int  # c
    embedding_dim: int  # d
    attention_trunk: Callable[[int], nn.Module]  # number of classes -> (f -> [B,1,h,w])
    decoder: Callable[[int, int], nn.Module]  # K, C -> (z -> logits)
    latent_dim: int  # K
    num_anchors: int  # Q
    min_size: int  # the smallest image that the strides leave something of
    class_maps: Callable[[int], nn.Module] | None = None  # number of classes -> (f -> [B,C,h,w])


def maps_of_classes(channels: int, num_classes: int) -> nn.Sequential:
    """Features to one map a class, none below zero."""
    return nn.Sequential(
        nn.Conv2d(channels, num_classes, 1, bias=False), nn.BatchNorm2d(num_classes), nn.ReLU()
    )


def maps_to_one(num_classes: int) -> nn.Sequential:
    """C maps to one score, before the sigmoid."""
    return nn.Sequential(nn.Conv2d(num_classes, 1, 3, padding=1, bias=False), nn.BatchNorm2d(1))


def guided(class_maps: nn.Module, num_classes: int) -> ClassMaps:
    """A trunk for the attention, taught by a second head."""
    return ClassMaps(class_maps, maps_to_one(num_classes), num_classes)


class Embed(nn.Module):
    """Pool to size x size and flatten: any input size gives the same embedding size."""

    def __init__(self, size: int = 1):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(size)

    def forward(self, f: Tensor) -> Tensor:
        return self.pool(f).flatten(1)


def scaled(channels: int, width: float) -> int:
    """Channels at a width; at least one."""
    return max(1, round(channels * width))


def init_weights(module: nn.Module) -> None:
    """He initialisation by fan-in for convolutions; the rest is PyTorch's default.

    By fan-in because the attention's last convolution has one output channel: by fan-out its
    weights would saturate the sigmoid before training begins.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
