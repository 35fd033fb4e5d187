"""The layers of a network by name, and the default layer of library networks."""

import fnmatch
import re

from torch import nn

from aib.config.validation import reject_unknown
from aib.errors import AibError

# The default layer `at`, and the networks that have it; the first that fits counts. It is the last
# one with a stride of 16, or a transformer's last block; -1 is a layer's last child.
DEFAULTS = {
    "timm": {
        "blocks.3": "*mobilenetv3_small*",
        "blocks.4": "*mobilenetv3* mobilenetv2* *mnasnet* efficientnet* tf_efficientnet*",
        "stages.2": "convnext* swinv2_cr_*",
        "layers.2": "swin*",
        "s3": "regnet*",
        "features.denseblock3": "densenet*",
        "features.-2": "vgg*",
        "Mixed_6e": "inception_v3",
        "layer3": "resnet[0-9abr]* resnest* resnext* seresnet* seresnext* wide_resnet*",
        "blocks.-1": "vit_* deit_* deit3_* beit* eva02_*",
    },
    "torchvision": {
        "features.8": "mobilenet_v3_small",
        "features.12": "mobilenet_v3_large",
        "features.13": "mobilenet_v2",
        "layers.11": "mnasnet*",
        "features.5": "efficientnet* convnext* swin*",
        "blocks.2": "maxvit*",
        "trunk_output.block3": "regnet*",
        "stage3": "shufflenet*",
        "features.denseblock3": "densenet*",
        "features.-2": "alexnet vgg*",
        "layer3": "resnet* resnext* wide_resnet*",
        "encoder.layers.-1": "vit_*",
    },
}


def find_layer(network: nn.Module, name: str) -> nn.Module:
    """A layer by its dotted name; an unknown name is an error."""
    layers = dict(network.named_modules())  # the network itself is ""
    if name:
        reject_unknown([name], filter(None, layers), f"{type(network).__name__} has no layer")
    return layers[name]


def default_layer(name: str) -> str | None:
    """The default `at` of a library network, such as timm:resnet50; None if it has none."""
    library, _, model = name.partition(":")
    for at, patterns in DEFAULTS.get(library, {}).items():
        if any(fnmatch.fnmatch(model, one) for one in patterns.split()):
            return at
    return None


def name_from_start(network: nn.Module, name: str) -> str:
    """Resolve negative numbers in a layer's name: `blocks.-1` is the last block."""
    parts: list[str] = []
    for part in name.split("."):
        if re.fullmatch(r"-\d+", part):
            children = list(find_layer(network, ".".join(parts))._modules)
            part = children[int(part)] if int(part) >= -len(children) else part
        parts.append(part)
    return ".".join(parts)


def last_linear(network: nn.Module) -> str:
    """Name of the last Linear layer: in a classifier, the one that computes the logits."""
    names = [name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not names:
        raise AibError(f"{type(network).__name__} has no Linear layer to replace by the head")
    return names[-1]
