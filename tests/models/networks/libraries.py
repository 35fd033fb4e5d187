"""Stand-ins for timm and torchvision: their functions and how they behave, with small networks.

The real ones need a torch that is built together with torchvision. `Hub` plays the servers that
hold the pretrained weights.
"""

import sys
from functools import partial
from types import ModuleType, SimpleNamespace

import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from torch import nn

from tests.models.networks.small import EncoderBlock, ResNet, Tokens, ViT

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 32  # of images


class VisionTransformer(nn.Module):
    """torchvision's names: encoder.layers.encoder_layer_0, heads.head."""

    def __init__(self, image_size=64, num_classes=4):
        super().__init__()
        self.conv_proj = Tokens(8, size=image_size, patch=8)
        self.encoder = nn.Module()
        self.encoder.layers = nn.Sequential()
        for i in range(3):
            self.encoder.layers.add_module(f"encoder_layer_{i}", EncoderBlock(8))
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(8, num_classes))

    def forward(self, x):
        return self.heads(self.encoder.layers(self.conv_proj(x))[:, 0])


class Hub:
    """Where pretrained weights come from; `online = False` makes every download fail."""

    def __init__(self):
        self.online, self.downloads = True, []

    def load(self, network, name):
        if not self.online:
            raise LocalEntryNotFoundError("cannot find the requested files in the local cache.\n")
        self.downloads.append(name)
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))


TIMM = {
    "resnet18": ResNet,
    "resnet50": ResNet,
    "vit_tiny_patch16_224": partial(ViT, size=SIZE, patch=8),
    "vit_small_patch14_dinov2": partial(ViT, size=SIZE, patch=8),
    "sequencer2d_s": ResNet,  # a family without a default layer
}
TORCHVISION = {
    "resnet18": ResNet,
    "vit_b_16": VisionTransformer,
}


def make_timm(hub):
    """The module timm, with timm.data."""

    def create_model(model_name, pretrained=False, num_classes=None):
        architecture = model_name.split(".")[0]
        own = 0 if "dinov2" in architecture else 4  # features only
        network = TIMM[architecture](num_classes=own if num_classes is None else num_classes)
        network.pretrained_cfg = {"input_size": (3, SIZE, SIZE), "mean": MEAN, "std": STD}
        if pretrained:
            hub.load(network, model_name)
        return network

    timm, data = ModuleType("timm"), ModuleType("timm.data")
    timm.create_model, timm.list_models, timm.data = create_model, lambda: sorted(TIMM), data
    data.resolve_model_data_config = lambda network: network.pretrained_cfg
    return {"timm": timm, "timm.data": data}


def make_torchvision(hub):
    """The modules torchvision and torchvision.models."""
    models = ModuleType("torchvision.models")

    def list_models(module=None):
        names = sorted(TORCHVISION)
        return names if module is models else [*names, "fasterrcnn_resnet50_fpn", "raft_large"]

    def get_model(name, weights=None, **kwargs):
        network = TORCHVISION[name](**kwargs)
        if weights is not None:
            hub.load(network, name)
        return network

    def get_model_weights(name):
        transforms = partial(SimpleNamespace, crop_size=[SIZE], mean=list(MEAN), std=list(STD))
        return SimpleNamespace(DEFAULT=SimpleNamespace(transforms=transforms))

    models.list_models, models.get_model = list_models, get_model
    models.get_model_weights = get_model_weights
    torchvision = ModuleType("torchvision")
    torchvision.models = models
    return {"torchvision": torchvision, "torchvision.models": models}


def install(monkeypatch):
    """Put both libraries where `import` finds them; return their hub."""
    hub = Hub()
    for name, module in {**make_timm(hub), **make_torchvision(hub)}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return hub
