"""What the page says of an image is what the model says."""

import numpy as np
import pytest
import torch

from aib.interpret.maps import explain
from aib.viewer import analysis
from aib.viewer.analysis import analyse, map_note
from aib.viewer.scene import Viewer
from tests.interpret.small import make_model
from tests.viewer.small import opened, photo, shapes


def test_it_agrees_with_aib_explain(tmp_path):
    run = opened(tmp_path)
    found = Viewer([run]).show(photo(), "photo").now[0]
    explained = explain(run.model, photo())
    top = [(found.names[i], float(found.probabilities[i])) for i in found.top(5)]
    assert top == [(name, pytest.approx(p)) for name, p in explained.top(0)]
    assert torch.equal(found.map, explained.map[0])
    assert torch.equal(found.levels, explained.level_indices[0])
    assert torch.equal(found.sigma, explained.sigma[0])
    assert found.drawn == explained.samples == "4x12"
    assert found.method == "own" and map_note(found) is None


def test_uncertainty_by_hand():
    data = shapes()
    model = make_model(data=data)
    pixels = data.pixels(0)
    found = analyse(model, pixels, samples=(3, 5), seed=4)
    torch.manual_seed(4)
    with torch.no_grad():
        out = model(data.preprocessing.normalise(pixels[None]), (3, 5))
    each = out.sample_logits.softmax(-1).reshape(15, 10).double().numpy()
    mean = each.mean(0)

    def entropy(p):
        return -(p * np.log2(p)).sum(-1)

    assert found.entropy == pytest.approx(entropy(mean), rel=1e-4)
    assert found.disagreement == pytest.approx(entropy(mean) - entropy(each).mean(), abs=1e-4)
    assert found.spread.numpy() == pytest.approx(each.std(0, ddof=1), rel=1e-3)
    latent = out.latent
    variance, mu = latent.sigma.double() ** 2, latent.mu.double()
    nats = 0.5 * (variance + mu**2 - 1 - variance.log()).sum(-1).mean()
    assert found.kl == pytest.approx(float(nats) / np.log(2), rel=1e-4)
    assert torch.equal(found.samples, out.attention.a_q[:, 0])
    assert set(found.samples.unique().tolist()) <= set(found.anchors.tolist())


def test_looking_leaves_the_random_numbers_and_the_model_as_they_were():
    data = shapes()
    model = make_model(data=data).train()
    before = torch.get_rng_state()
    found = analyse(model, data.pixels(0))
    assert torch.equal(torch.get_rng_state(), before) and model.training
    assert int(model.quantizer.usage.sum()) == 0
    again = analyse(model, data.pixels(0))
    assert torch.equal(found.probabilities, again.probabilities)


def test_a_model_without_a_quantiser_has_no_levels():
    data = shapes()
    found = analyse(make_model("tiny_aib", data), data.pixels(0))
    assert found.levels is None and found.anchors is None and found.used_levels == []
    assert found.map is not None and found.sigma is not None


def test_a_fixed_map_has_no_uncertainty():
    data = shapes()
    found = analyse(make_model("vgg_att2", data), data.pixels(0))
    assert found.map is not None and found.sigma is None and found.samples is None
    assert found.spread is None and found.disagreement is None and found.drawn == "one pass"


def test_a_model_without_attention_gets_gradcam_where_captum_is(monkeypatch):
    pytest.importorskip("captum")
    data = shapes()
    model = make_model("tiny_dvib", data)
    found = analyse(model, data.pixels(0))
    assert found.method == "gradcam" and found.map.min() >= 0 and "Grad-CAM" in map_note(found)
    monkeypatch.setattr(analysis, "has_captum", lambda: False)
    found = analyse(model, data.pixels(0))
    assert found.method is None and found.map is None
    assert "pip install '.[posthoc]'" in map_note(found)


def test_levels_are_those_of_the_nearest_anchors():
    data = shapes()
    model = make_model(data=data)
    with torch.no_grad():
        model.quantizer.anchors.copy_(torch.rand(20))  # in no order, as after training
    found = analyse(model, data.pixels(0))
    with torch.no_grad():
        mu = model(data.preprocessing.normalise(data.pixels(0)[None])).attention.mu[0]
    ordered = np.sort(model.quantizer.anchors.detach().numpy())
    nearest = np.abs(mu.numpy()[:, :, None] - ordered).argmin(-1)
    assert np.array_equal(found.levels.numpy(), nearest)
    assert found.map.numpy() == pytest.approx(ordered[nearest])
    assert found.used_levels == sorted(set(nearest.flatten().tolist()), reverse=True)
