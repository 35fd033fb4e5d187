"""Attention branch network (Fukui et al., 2019)."""

from torch import Tensor, nn

from aib.attention import AttentionParameters
from aib.types import widen


class AttentionBranch(nn.Module):
    """f -> one map a class -> the attention map, and a second classifier that teaches it.

    The second head (global average of its own 1 x 1 convolution) gets a cross-entropy loss: the
    maps that the attention is made of then have to hold evidence for the classes.
    """

    def __init__(self, class_maps: nn.Module, to_one: nn.Module, num_classes: int):
        super().__init__()
        self.class_maps = class_maps  # f -> [B,C,h,w]
        self.to_one = to_one  # [B,C,h,w] -> [B,1,h,w]
        self.to_logits = nn.Conv2d(num_classes, num_classes, 1, bias=False)

    def forward(self, f: Tensor) -> AttentionParameters:
        maps = self.class_maps(f)
        mu = widen(self.to_one(maps)).sigmoid().squeeze(1)
        return AttentionParameters(mu, None, self.to_logits(maps).mean((2, 3)))
