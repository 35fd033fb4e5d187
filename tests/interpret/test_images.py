"""Metrics of every image, with known answers."""

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from aib.data import Batches
from aib.interpret.measure import Context, run_measures
from aib.interpret.measures.images import Images
from aib.interpret.measures.stability import StabilityMeasure
from aib.interpret.metrics.perturb import modifications
from tests.helpers import eval_model, numbers, shapes

DATA = shapes(20)
LOCATED = {"pointing", "energy_inside", "auroc"}
TEN = modifications("shapes")


@torch.no_grad()
def measure(model, batch_size=8, known=None):
    """Metrics of each image, and what each modification does."""
    known = known or {name: TEN[name] for name in ("color-8", "high-4")}
    context = Context(model, frozenset(), seed=3, modifications=known)
    images, stability = measures = [Images(context), StabilityMeasure(context)]
    run_measures(context, measures, Batches(DATA, batch_size))
    return images.fields(), stability.fields()["stability"]


@pytest.fixture(scope="module")
def model():
    return eval_model("tiny_aib_qt", DATA)


def test_the_metrics_do_not_depend_on_the_batch_size(model):
    (one, first), (other, second) = measure(model, 20), measure(model, 7)
    for key, value in numbers(one["information"]).items():
        assert numbers(other["information"])[key] == pytest.approx(value, rel=1e-5), key
    name = "localisation_own_all_images"
    assert other[name] == pytest.approx(one[name], rel=1e-5) and set(one[name]) == LOCATED
    # near ties of two classes may fall either way by rounding; there are none here
    for name, found in first.items():
        assert numbers(found) == pytest.approx(numbers(second[name]), rel=1e-3), name


def test_a_model_without_maps_still_has_its_accuracy_under_each_modification():
    model = eval_model("tiny_dvib", DATA)
    found, stability = measure(model)
    information = found["information"]
    assert information.perplexity is None and information.contrast is None
    images = [DATA.images, TEN["high-4"](DATA.images, torch.arange(20), seed=3)]
    with torch.no_grad():
        outs = [model(model.preprocessing.normalise(x), deterministic=True) for x in images]
    before, after = (out.logits.argmax(-1) for out in outs)
    assert numbers(stability["high-4"]) == pytest.approx(
        {
            "accuracy": 100 * float((after == DATA.labels).double().mean()),
            "prediction_consistent.value": 100 * float((after == before).double().mean()),
        }
    )
    p = Normal(outs[0].latent.mu[0], outs[0].latent.sigma[0])
    nats = kl_divergence(p, Normal(0.0, 1.0)).sum(-1)
    assert information.kl_bits == pytest.approx(float(nats.mean()) / math.log(2), rel=1e-4)
