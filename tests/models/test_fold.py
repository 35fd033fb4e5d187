"""Folded models decide as before, with fewer layers."""

import copy

import pytest
import torch
from torch import nn

import aib
from aib.interpret.posthoc import gradcam_maps
from aib.models.fold import fold_batch_norm
from aib.models.registry import MODELS
from tests.helpers import SmallNet, filled_model, images


def norms(model):
    return sum(isinstance(layer, nn.BatchNorm2d) for layer in model.modules())


def folded(model):
    other = copy.deepcopy(model)
    fold_batch_norm(other)
    return other


def outputs(model, x):
    """The logits and the map of a pass with fixed noise."""
    torch.manual_seed(0)
    out = model(x, (2, 3))
    maps = [] if out.attention is None else [out.attention.mu]
    return [out.sample_logits, *maps]


@pytest.mark.parametrize(
    ("name", "size", "options", "left"),
    [(name, entry.sizes[0], {}, None) for name, entry in MODELS.items()]
    + [
        ("lite2_masked", 224, {"latent_dim": 8}, 0),
        ("lite0_masked", 224, {"propose": "separate"}, 0),
        ("lite0", 224, {}, 0),
        ("wrn_aib_masked", 224, {"propose": "copy"}, 1),  # of the stem: other layers read it
        ("wrn_aib", 224, {}, 0),
    ],
)
def test_outputs_are_equal_with_any_statistics(name, size, options, left):
    model = filled_model(name, size, **options).double()
    other, x = folded(model), images(2, min(size, 64)).double()
    for before, after in zip(outputs(model, x), outputs(other, x), strict=True):
        assert before.std() > 1e-6
        torch.testing.assert_close(after, before, rtol=1e-10, atol=1e-10)
    assert norms(other) < norms(model) and left in (None, norms(other))


def test_what_may_be_read_elsewhere_is_left_alone():
    attached = aib.attach(SmallNet(), "features", 3).eval()
    twice = filled_model("lite0_masked", 224, propose="twice")
    training = filled_model("tiny").train()
    for model in (attached, twice, training):
        assert norms(folded(model)) == norms(model)


def test_gradcam_of_a_folded_model_is_the_same():
    pytest.importorskip("captum")
    x = images(1, 64).double()
    for name in ("lite0", "wrn"):
        model = filled_model(name, MODELS[name].sizes[0]).double()
        torch.testing.assert_close(gradcam_maps(folded(model), x), gradcam_maps(model, x))
