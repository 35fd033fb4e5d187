"""A model run under a map that it did not make itself."""

import numpy as np
import pytest
import torch

import aib
from tests.helpers import SmallNet


def named(name):
    return lambda: aib.create_model(name, num_classes=4, width=0.25)


MODELS = {
    "aib": named("tiny_aib"),
    "quantised": named("tiny_aib_qt"),
    "abn": named("wrn_abn"),
    "attached": lambda: aib.attach(
        SmallNet(4), "features", 4, quantizer=5, image_size=32, latent_dim=8
    ),
}
X = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]().eval()


def own_map(model):
    return model.mean_map(model(X, deterministic=True).attention)[0]


def test_under_its_own_map_a_model_decides_as_ever(model):
    own = model(X, deterministic=True)
    given = model(X, deterministic=True, attention_map=own_map(model))
    assert torch.equal(given.sample_logits, own.sample_logits)


def test_another_map_changes_the_decision_and_not_the_attention_itself(model):
    own = model(X, deterministic=True)
    given = model(X, deterministic=True, attention_map=torch.zeros_like(own.attention.mu))
    assert not torch.equal(given.sample_logits, own.sample_logits)
    assert torch.equal(given.attention.mu, own.attention.mu)
    assert (given.attention.a_q == 0).all()


def test_every_sample_meets_the_given_map(model):
    given = model(X, samples=(3, 2), attention_map=own_map(model))
    shown = given.attention.a_q
    assert (shown == own_map(model)).all()


def test_a_map_of_another_shape_is_refused_in_a_sentence(model):
    with pytest.raises(aib.AibError, match="attention_map for these images must be"):
        model(X, attention_map=torch.zeros(3, 2, 2))
    model(X)  # and the model still works


@pytest.mark.parametrize("name", ["attention_map", "mask"])
def test_a_list_or_an_array_is_refused_in_a_sentence(name):
    model = aib.create_model("tiny_aib_masked", num_classes=4, width=0.25).eval()
    for given in (np.zeros((3, 32, 32)), [[[0.0]]] * 3):
        kind = type(given).__name__
        with pytest.raises(aib.AibError, match=f"^{name} must be a tensor, not a {kind}: torch"):
            model(X, **{name: given})


def test_a_model_without_attention_refuses_any_map():
    with pytest.raises(aib.AibError, match="no single attention map"):
        named("tiny_dvib")().eval()(X, attention_map=torch.zeros(3, 16, 16))
