"""The released profile against the authors' code: its outputs, its loss, its first weights."""

import math

import pytest
import torch
from torch import nn

import aib
from aib.models import gaussian
from aib.training.step import kl_weight
from tests.helpers import Numbers, fill

# Computed once in float64 by the authors' classes `Vgg16_bn_lrn_VANet_QT` and `WideResNet_QT` and
# the loss of their training scripts (github.com/ashleylqx/AIB, commit 77e418c), channels divided
# by 32, K = 4, three classes, 20 anchors, with the weights, images and noise of `fill`.
AUTHORS = {
    "vgg_aib_qt": {
        "logits": [
            [-0.21527353149308592, 0.3850277986105674, 0.17658015407091074],
            [-0.21646665486314975, 0.38565030624242636, 0.1781867651878672],
        ],
        "a": 0.37319119941965995,  # of sample 0, image 0, row 5, column 7
        "kl": 0.14707557500731872,
        "quantization": 0.00026842227201872714,
        "total": 1.822900719281175,
    },
    "wrn_aib_qt": {
        "logits": [
            [-0.7802723881204073, -1.3509566149027226, -0.5826262569693751],
            [-0.7673783826312159, -1.2578109688489914, -0.553968272766498],
        ],
        "a": 0.5861408635869181,
        "kl": 2.9643828543919946,
        "quantization": 0.00023802247638429102,
        "total": 1.3829823492767517,
    },
}


@pytest.mark.parametrize("name", AUTHORS)
def test_outputs_and_loss_are_those_of_the_authors_code(name, monkeypatch):
    monkeypatch.setattr(gaussian, "SIGMA_FLOOR", 0.0)  # the one thing that theirs does not have
    options = {"latent_dim": 4, "num_anchors": 20, "width": 1 / 32, "profile": "released"}
    model = aib.create_model(name, 3, **options).double().eval()
    numbers = fill(model, Numbers(0))
    x, eps_a, eps_z = (2 * numbers(*s) for s in ((2, 3, 32, 32), (2, 2, 16, 16), (2, 2, 2, 4)))
    out = model(x, samples=(2, 2), noise=(eps_a, eps_z))
    beta = 0.01 * kl_weight(model)
    terms = aib.aib_loss(out, torch.tensor([0, 2]), beta, profile="released")
    assert_close(out.average("logits"), AUTHORS[name]["logits"])
    assert_close(out.attention.a[0, 0, 5, 7], AUTHORS[name]["a"])
    for term in ("kl", "quantization", "total"):
        assert_close(getattr(terms, term), AUTHORS[name][term])


def assert_close(found, expected):
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found.detach(), expected, rtol=1e-9, atol=0)


def test_vgg_at_32_halves_the_kl_and_no_other():
    named = [("vgg_aib", 3, 32), ("vgg_aib_qt", 3, 32), ("vgg_aib", 3, 224), ("wrn_aib", 3, 32)]
    for profile, expected in (("paper", [1, 1, 1, 1]), ("released", [0.5, 0.5, 1, 1])):
        with torch.device("meta"):
            made = [aib.create_model(*model, profile=profile) for model in named]
        found = list(map(kl_weight, made))
        assert found == expected


def test_vgg_starts_from_xavier_uniform_weights_and_drawn_scales():
    torch.manual_seed(0)
    model = aib.create_model("vgg_aib_qt", width=0.25, profile="released")
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            taps = layer.weight[0, 0].numel() if layer.weight.dim() == 4 else 1
            out, into = layer.weight.shape[:2]
            bound = math.sqrt(2) * math.sqrt(6 / (taps * (out + into)))
            assert layer.weight.abs().max() <= bound and not layer.bias.any()
            if layer.weight.numel() > 5000:
                assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        if isinstance(layer, nn.BatchNorm2d):
            assert 0 <= layer.weight.min() < 0.5 < layer.weight.max() <= 1 and not layer.bias.any()


@pytest.mark.parametrize(("profile", "fan"), [("paper", 1), ("released", 0)])
def test_wrn_starts_from_he_weights_by_fan_out_and_ours_by_fan_in(profile, fan):
    """In the released one only sigma_a, a convolution, has PyTorch's default for its bias."""
    torch.manual_seed(0)
    model = aib.create_model("wrn_aib", width=0.2, profile=profile)
    uneven = [
        layer.weight
        for layer in model.modules()
        if isinstance(layer, nn.Conv2d)
        and layer.weight.shape[0] != layer.weight.shape[1]
        and layer.weight.numel() > 5000
    ]
    assert len(uneven) >= 3
    for weight in uneven:
        expected = math.sqrt(2 / (weight.shape[fan] * weight[0, 0].numel()))
        assert weight.std().item() == pytest.approx(expected, rel=0.05)
    linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    assert any(layer.bias.any() for layer in linear) == (profile == "paper")
    assert model.attention.to_sigma.bias.any() == (profile == "released")
