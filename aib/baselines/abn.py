"""Attention branch network (Fukui et al., 2019)."""

from torch import Tensor, nn

from aib.attention import AttentionParameters, ClassMaps
from aib.types import widen


class AttentionBranch(nn.Module):
    """f -> one map a class -> the attention map, and a second classifier that teaches it."""

    def __init__(self, class_maps: nn.Module, to_one: nn.Module, num_classes: int):
        super().__init__()
        self.branch = ClassMaps(class_maps, to_one, num_classes)

    def forward(self, f: Tensor) -> AttentionParameters:
        score, logits = self.branch(f)
        return AttentionParameters(widen(score).sigmoid().squeeze(1), None, logits)
