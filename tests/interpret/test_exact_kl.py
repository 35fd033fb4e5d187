"""The claim of the whole project, trained from scratch: the exact bottleneck finds the object."""

from dataclasses import replace
from statistics import mean

import pytest
import torch
from torch import nn

import aib
from aib.backbones.parts import Embed, init_weights
from aib.backbones.vgg import block, conv_bn_relu
from aib.configs import get_preset
from aib.data import ImageSet
from aib.engine import fit
from aib.interpret.pixels import Feed
from aib.interpret.survey import Survey, survey
from aib.settings import Settings
from aib.train import load_data


def small_network(profile, data: ImageSet) -> aib.Classifier:
    """Attention at 16 x 16 places, as in the large models; a dilated layer sees whole shapes."""
    wide = conv_bn_relu(32, 32)
    wide[0] = nn.Conv2d(32, 32, 3, padding=2, dilation=2)
    stem = nn.Sequential(block(3, 16, 1, pool=True), block(16, 32, 1), conv_bn_relu(32, 32), wide)
    tail = nn.Sequential(nn.MaxPool2d(2), block(32, 64, 1, pool=True), block(64, 64, 2), Embed())
    model = aib.AIB(stem, tail, data.num_classes, quantizer=20, latent_dim=32, profile=profile)
    init_weights(model)
    model.preprocessing = data.preprocessing
    return model


def trained(profile, settings: Settings) -> Survey:
    data, test = load_data(settings, "train"), load_data(settings, "test")
    torch.manual_seed(settings.seed)
    model = fit(small_network(profile, data), data, settings).model
    return survey(model, Feed(test, torch.arange(len(test))), {})


@pytest.mark.slow
def test_the_exact_kl_finds_the_shape_and_the_released_one_clearly_less():
    """Both are as accurate; only the maps tell them apart, and only over several seeds.

    The released profile's map is a matter of luck: with some seeds it finds the shape as well,
    with others it highlights the background. In the demo's network, with 8 x 8 places, both find
    the shape. So what is claimed is that the exact one is reliable, and better on average.
    """
    settings = replace(get_preset("shapes_tiny").settings, accelerator="cpu")
    runs = [replace(settings, seed=seed) for seed in range(3)]
    found = {profile: [trained(profile, run) for run in runs] for profile in ("paper", "released")}
    auroc = {name: [s.mean("auroc") for s in surveys] for name, surveys in found.items()}
    accuracy = {name: [s.mean("correct") for s in surveys] for name, surveys in found.items()}
    print(auroc, accuracy)
    assert min(auroc["paper"]) >= 0.9, auroc
    assert mean(auroc["released"]) <= mean(auroc["paper"]) - 0.05, auroc
    assert min(accuracy["paper"] + accuracy["released"]) >= 0.9, accuracy
