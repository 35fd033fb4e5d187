"""The backbones of the models, each cut in two where the attention sits."""

from aib.models.backbones.lite import lite
from aib.models.backbones.parts import Parts
from aib.models.backbones.tiny import tiny
from aib.models.backbones.vgg import vgg16, vgg_cifar
from aib.models.backbones.wrn import wrn28_10, wrn50_2

__all__ = ["Parts", "lite", "tiny", "vgg16", "vgg_cifar", "wrn28_10", "wrn50_2"]
