"""VGG with attention at several levels, by two papers."""

import torch
from torch import Tensor, nn

from aib.config.options import ModelOptions
from aib.models.backbones.parts import Embed, Parts, scaled
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
    """Progressive attention (Seo et al., 2018), without a query: plain classification.

    Gates at 16 x 16 and 8 x 8 filter the features; at 4 x 4 a softmax weights their sum.

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


class Compatibility(nn.Module):
    """Weights of positions: softmax over u . (l_i + g), local features against the global one."""

    def __init__(self, channels: int):
        super().__init__()
        self.score = nn.Conv2d(channels, 1, 1, bias=False)  # u

    def forward(self, local: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """Local features [B,c,h,w] and the global [B,c,1,1] to their sum [B,c] and map [B,h,w]."""
        scores = widen(self.score(local + g))  # [B,1,h,w]
        share = scores.flatten(2).softmax(-1).view_as(scores)
        return torch.sum(local * share.to(local.dtype), dim=(2, 3)), share.squeeze(1)


class PayAttention(Classifier):
    """Learn to pay attention (Jetley et al., 2018), parametrised compatibility.

    It classifies from attended local features alone, of `levels` = 2 (16, 8) or 3 (and 4).
    """

    def __init__(self, num_classes: int, options: ModelOptions, parts: Parts, levels: int = 3):
        super().__init__(num_classes, profile=options.profile, min_size=32)
        width = options.width
        c3, c = scaled(256, width), scaled(512, width)
        self.stem = cifar_stem(width)
        self.block4, self.block5, self.block6 = cifar_tail_blocks(width)
        self.to_global = nn.Sequential(nn.Conv2d(c, c, 1), Embed())
        self.project = nn.Conv2d(c3, c, 1, bias=False)  # the first level has fewer channels
        self.compatibilities = nn.ModuleList(Compatibility(c) for _ in range(levels))
        self.classify = nn.Linear(levels * c, num_classes)

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        l1 = self.stem(x)  # [B,256,16,16]
        l2 = self.block4(l1)  # [B,512,8,8]
        l3 = self.block5(l2)  # [B,512,4,4]
        g = self.to_global(self.block6(l3))[:, :, None, None]  # [B,512,1,1]
        locals_ = (self.project(l1), l2, l3)[: len(self.compatibilities)]
        attended = [c(local, g) for c, local in zip(self.compatibilities, locals_, strict=True)]
        e = torch.cat([summed for summed, _ in attended], dim=1)  # [B,levels*c]
        maps = tuple(share for _, share in attended)
        attention = Attention.fixed(maps[0], maps)
        return Output(self.classify(e)[None, None], attention)
