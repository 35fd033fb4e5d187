"""Trained from scratch: the exact bottleneck finds the object."""

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
from aib.interpret import Localisation
from aib.interpret.controls import centre_gaussian
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
def test_the_exact_kl_finds_the_shape_with_every_seed():
    """Better than a blob in the middle of every image.

    Of the released profile nothing is claimed here. With this network its AUROC went from 0.20 to
    0.92 with the seed and the machine, at the same accuracy, and its mean was once below the exact
    one's and once the same.
    """
    settings = replace(get_preset("shapes_tiny").settings, accelerator="cpu")
    found = [trained("paper", replace(settings, seed=seed)) for seed in range(3)]
    centre = [centre_auroc(replace(settings, seed=seed)) for seed in range(3)]
    auroc = [s.mean("auroc") for s in found]
    print(auroc, centre)
    assert all(own > blob for own, blob in zip(auroc, centre, strict=True)), (auroc, centre)
    assert mean(auroc) >= 0.88, auroc
    assert min(s.mean("correct") for s in found) >= 0.9


def centre_auroc(settings: Settings) -> float:
    """Of the same map for every image, highest in the middle."""
    test = load_data(settings, "test")
    metric = Localisation(["auroc"])
    metric.update(centre_gaussian(len(test), (32, 32)), test.masks)
    return float(metric.compute()["auroc"])
