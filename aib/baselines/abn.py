"""Attention branch network (Fukui et al., 2019)."""

from torch import Tensor, nn

from aib.attention import AttentionParameters, ClassMaps
from aib.backbones.parts import Parts, guided
from aib.baselines.plain import build_plain
from aib.classifier import Classifier
from aib.options import ModelOptions
from aib.types import widen


class AttentionBranch(nn.Module):
    """f -> one map per class -> the attention map, and a second classifier that trains it."""

    def __init__(self, branch: ClassMaps):
        super().__init__()
        self.branch = branch

    def forward(self, f: Tensor) -> AttentionParameters:
        score, logits = self.branch(f)
        return AttentionParameters(widen(score).sigmoid().squeeze(1), None, logits)


def build_abn(num_classes: int, options: ModelOptions, parts: Parts) -> Classifier:
    """Builder: attention branch network, features modulated by f (1 + a)."""
    assert parts.class_maps is not None  # WRN's at 32 x 32
    branch = guided(parts.class_maps(num_classes), num_classes)
    return build_plain(num_classes, options, parts, AttentionBranch(branch))
