"""Wide residual networks: WRN-28-10 for 32 x 32 images, WRN-50-2 for 224 x 224."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from aib.config.options import ModelOptions
from aib.models.backbones.parts import Embed, MaskedDefaults, Parts, Stages, scaled
from aib.models.backbones.propose import StagesOf
from aib.models.latent import mlp_decoder, relu_decoder


class PreActivationBlock(nn.Module):
    """BN-ReLU-conv twice, dropout between; a 1 x 1 convolution as shortcut where sizes change."""

    folds = (("conv1", "bn2"),)  # pairs for `fold_batch_norm`

    def __init__(self, c_in: int, c_out: int, stride: int, dropout: float):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        same = c_in == c_out and stride == 1
        self.shortcut = None if same else nn.Conv2d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x))
        out = self.conv2(self.dropout(F.relu(self.bn2(self.conv1(active)))))
        return out + (x if self.shortcut is None else self.shortcut(active))


class BottleneckBlock(nn.Module):
    """1 x 1, 3 x 3, 1 x 1, each with BN; the middle one twice as wide as ResNet-50's."""

    def __init__(self, c_in: int, c_out: int, stride: int):
        super().__init__()
        middle = max(1, c_out // 2)
        self.body = nn.Sequential(
            nn.Conv2d(c_in, middle, 1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, middle, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, c_out, 1, bias=False),
            nn.BatchNorm2d(c_out),
        )
        self.shortcut = (
            nn.Identity()
            if c_in == c_out and stride == 1
            else nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def group(
    make: Callable[[int, int, int], nn.Module], c_in: int, c_out: int, depth: int, stride: int
) -> nn.Sequential:
    """A sequence of blocks; the first one changes channels and resolution."""
    first = make(c_in, c_out, stride)
    return nn.Sequential(first, *(make(c_out, c_out, 1) for _ in range(depth - 1)))


def maps_to_one(num_classes: int) -> nn.Sequential:
    """C maps to one score per position, before the sigmoid."""
    return nn.Sequential(nn.Conv2d(num_classes, 1, 3, padding=1, bias=False), nn.BatchNorm2d(1))


def wrn28_10(options: ModelOptions) -> Parts:
    """WRN-28-10: groups of four blocks, the attention between the second and the third."""
    block = partial(PreActivationBlock, dropout=options.dropout)
    c0, c1, c2, c3 = (scaled(c, options.width) for c in (16, 160, 320, 640))
    stem = nn.Sequential(
        nn.Conv2d(3, c0, 3, padding=1, bias=False),
        group(block, c0, c1, 4, 1),
        group(block, c1, c2, 4, 2),
    )
    tail = nn.Sequential(group(block, c2, c3, 4, 2), nn.BatchNorm2d(c3), nn.ReLU(), Embed())

    def class_maps(num_classes: int) -> nn.Sequential:
        """First layers of WRN's attention and of ABN's branch: C x 16 x 16."""
        return nn.Sequential(
            group(block, c2, c3, 4, 1),
            nn.BatchNorm2d(c3),
            nn.Conv2d(c3, num_classes, 1, bias=False),
            nn.BatchNorm2d(num_classes),
            nn.ReLU(),
        )

    return Parts(
        stem=stem,
        tail=tail,
        feature_channels=c2,
        embedding_dim=c3,
        attention_trunk=lambda num_classes: nn.Sequential(
            class_maps(num_classes), maps_to_one(num_classes)
        ),
        class_maps=class_maps,
        decoder=relu_decoder,
        latent_dim=512,
        num_anchors=50,
        min_size=4,
        masked=MaskedDefaults(proposal_width=options.width),
    )


def wrn50_2(options: ModelOptions) -> Parts:
    """WRN-50-2: the attention between its third and fourth group, 14 x 14 positions."""
    c0, c1, c2, c3, c4 = (scaled(c, options.width) for c in (64, 256, 512, 1024, 2048))
    stem = nn.Sequential(
        nn.Conv2d(3, c0, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(c0),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
        group(BottleneckBlock, c0, c1, 3, 1),
        group(BottleneckBlock, c1, c2, 4, 2),
        group(BottleneckBlock, c2, c3, 6, 2),
    )
    return Parts(
        stem=stem,
        tail=nn.Sequential(group(BottleneckBlock, c3, c4, 3, 2), Embed()),
        feature_channels=c3,
        embedding_dim=c4,
        attention_trunk=lambda num_classes: nn.Sequential(
            group(BottleneckBlock, c3, c4, 3, 1), nn.Conv2d(c4, 1, 3, padding=1)
        ),
        decoder=mlp_decoder,
        latent_dim=256,
        num_anchors=50,
        min_size=32,
        masked=MaskedDefaults(
            4, "twice", options.width, layer="1.0", channels=c4, bottleneck=False
        ),
        stages=Stages(lambda: StagesOf(deepcopy(stem), len(stem) - 1), (c2, c3)),
    )
