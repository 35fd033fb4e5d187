"""Attention branch network (Fukui et al., 2019)."""

from torch import Tensor, nn

from aib.attention import AttentionParameters, ClassMaps
from aib.types import widen


class AttentionBranch(nn.Module):
    """f -> one map per class -> the attention map, and a second classifier that trains it."""

    def __init__(self, branch: ClassMaps):
        super().__init__()
        self.branch = branch

    def forward(self, f: Tensor) -> AttentionParameters:
        score, logits = self.branch(f)
        return AttentionParameters(widen(score).sigmoid().squeeze(1), None, logits)
