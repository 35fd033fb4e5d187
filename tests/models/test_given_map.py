"""A model run under a map that it did not make itself."""

import pytest
import torch

import aib
from tests.helpers import SmallNet


def named(name):
    return lambda: aib.create_model(name, num_classes=4, width=1 / 16)


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


def test_a_given_map_decides_in_place_of_the_models_own(model):
    own = model(X, deterministic=True)
    own_map = model.mean_map(own.attention)[0]
    same = model(X, deterministic=True, attention_map=own_map)
    assert torch.equal(same.sample_logits, own.sample_logits)
    assert (model(X, samples=(3, 2), attention_map=own_map).attention.a_q == own_map).all()
    given = model(X, deterministic=True, attention_map=torch.zeros_like(own.attention.mu))
    assert not torch.equal(given.sample_logits, own.sample_logits)
    assert torch.equal(given.attention.mu, own.attention.mu)  # the model's own
    assert (given.attention.a_q == 0).all()


def test_a_map_of_another_shape_or_of_a_model_without_attention_is_refused(model):
    with pytest.raises(aib.AibError, match="attention_map must be"):
        model(X, attention_map=torch.zeros(3, 2, 2))
    model(X)  # and the model still works
    with pytest.raises(aib.AibError, match="no single attention map"):
        named("tiny_dvib")()(X, attention_map=torch.zeros(3, 16, 16))
