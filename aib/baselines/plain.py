"""The plain network: the backbone with one linear layer to the logits."""

from torch import nn

from aib.backbones.parts import Parts
from aib.bottleneck import AIB
from aib.classifier import Classifier
from aib.options import ModelOptions


def build_plain(
    num_classes: int, options: ModelOptions, parts: Parts, attention: nn.Module | None = None
) -> Classifier:
    """Builder: the plain network, or one with an attention of another paper."""
    return AIB(
        parts.stem,
        parts.tail,
        num_classes,
        attention=attention,
        head=parts.head(num_classes, options, None),
        modulation="residual",
        profile=options.profile,
        min_size=parts.min_size,
    )
