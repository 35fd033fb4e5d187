"""Progressive attention network (Seo et al., 2018), without a query: plain classification."""

import torch
from torch import Tensor, nn

from aib.config.options import ModelOptions
from aib.models.backbones.parts import Parts, scaled
from aib.models.backbones.vgg import cifar_stem, cifar_tail_blocks
from aib.models.classifier import Classifier
from aib.models.gaussian import widen
from aib.models.types import Attention, Given, Output, Sampling


class LocalContext(nn.Module):
    """A score for every position from its 3 x 3 neighbourhood."""

    def __init__(self, channels: int):
        super().__init__()
        self.score = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 1, 1)
        )

    def forward(self, f: Tensor) -> Tensor:
        return widen(self.score(f))  # [B,1,h,w]


class ProgressiveAttention(Classifier):
    """Gates at 16 x 16 and 8 x 8 filter the features; at 4 x 4 a softmax weights their sum.

    Every gate sees features that the gates before it have already filtered: the attention narrows
    as the receptive field grows.
    """

    def __init__(self, num_classes: int, options: ModelOptions, parts: Parts):
        super().__init__(num_classes, profile=options.profile, min_size=8)
        width = options.width
        c3, c = scaled(256, width), scaled(512, width)
        block4, block5, _ = cifar_tail_blocks(width)
        self.stages = nn.ModuleList([cifar_stem(width), block4, block5])
        self.contexts = nn.ModuleList([LocalContext(c3), LocalContext(c), LocalContext(c)])
        self.classify = nn.Linear(c, num_classes)

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        f, maps = x, []
        for stage, context in zip(self.stages[:-1], self.contexts[:-1], strict=True):
            f = stage(f)
            gate = context(f).sigmoid()  # [B,1,h,w]
            f = f * gate.to(f.dtype)
            maps.append(gate.squeeze(1))
        f = self.stages[-1](f)  # [B,c,4,4]
        share = self.contexts[-1](f).flatten(2).softmax(-1).view_as(f[:, :1])  # [B,1,4,4]
        e = torch.sum(f * share.to(f.dtype), dim=(2, 3))  # [B,c]
        maps.append(share.squeeze(1))
        attention = Attention.fixed(maps[0], tuple(maps))
        return Output(self.classify(e)[None, None], attention)
