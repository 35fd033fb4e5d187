"""The walk over the images, with known answers."""

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from aib.interpret.comparison import compare, no_masks, sources
from aib.interpret.maps import make_maps
from aib.interpret.metrics.perturb import modifications
from aib.interpret.per_image import by_class, survey
from tests.interpret.small import feed, make_model, shapes

DATA = shapes(20)
TEN = modifications("shapes")


def walk(model, batch_size=8, which=("color-8", "high-4")):
    known = {name: TEN[name] for name in which}
    return survey(model, feed(DATA, batch_size), known, seed=3)


@pytest.fixture(scope="module")
def model():
    return make_model("tiny_aib_qt", DATA)


def test_the_figures_do_not_depend_on_the_batches(model):
    one, other = walk(model, 20), walk(model, 7)
    assert one.columns.keys() == other.columns.keys()
    for name, values in one.columns.items():
        torch.testing.assert_close(values, other.columns[name], equal_nan=True, msg=name)
    # decisions on the verge may differ by rounding; untrained as it is, none of these is
    for name, figures in one.stability.items():
        assert figures == pytest.approx(other.stability[name], rel=1e-3), name


def test_there_is_a_row_an_image_with_its_place_and_class(model):
    columns = walk(model).columns
    assert columns["index"].tolist() == list(range(20))
    assert torch.equal(columns["label"], DATA.labels)
    assert columns["color-8 cosine"].shape == (20,)
    assert ((columns["entropy_bits"] >= 0) & (columns["entropy_bits"] <= 4.33)).all()
    assert ((columns["energy_passed"] >= 0) & (columns["energy_passed"] <= 1)).all()


def test_a_modification_that_changes_nothing_scores_100(model):
    class Nothing:
        def __call__(self, images, index, *, seed=0, foreign=None):
            return images

    found = survey(model, feed(DATA), {"nothing": Nothing()})
    figures = found.stability["nothing"]
    assert figures["score_0.9"] == figures["prediction_consistent"] == 100
    assert figures["centred_mean"] == pytest.approx(1, abs=1e-5)
    assert figures["accuracy"] == pytest.approx(100 * found.mean("correct"))


def test_a_constant_map_scores_100_and_is_counted_as_flat():
    model = make_model("tiny_aib", DATA)
    for p in model.attention.trunk.parameters():
        torch.nn.init.zeros_(p)
    found = walk(model)
    figures = found.stability["color-8"]
    assert figures["score_0.95"] == 100 and figures["flat"] == 20
    assert figures["centred_undefined"] == round(figures["prediction_consistent"] / 5)
    assert figures["centred_mean"] != figures["centred_mean"]  # NaN: undefined
    assert found.mean("energy_passed") == pytest.approx(0.25)  # sigmoid(0) squared


def test_a_model_without_maps_still_has_its_accuracy_under_each_modification():
    model = make_model("tiny_dvib", DATA)
    found = walk(model)
    assert found.perplexity is None and found.mean("contrast") is None
    images = [DATA.images, TEN["high-4"](DATA.images, torch.arange(20), seed=3)]
    with torch.no_grad():
        outs = [model(model.preprocessing.normalise(x), deterministic=True) for x in images]
    before, after = (out.logits.argmax(-1) for out in outs)
    assert found.stability["high-4"] == pytest.approx(
        {
            "accuracy": 100 * float((after == DATA.labels).double().mean()),
            "prediction_consistent": 100 * float((after == before).double().mean()),
        }
    )
    p = Normal(outs[0].latent.mu[0], outs[0].latent.sigma[0])
    nats = kl_divergence(p, Normal(0.0, 1.0)).sum(-1)
    assert found.mean("kl_bits") == pytest.approx(float(nats.mean()) / math.log(2), rel=1e-4)


def test_the_shares_of_the_anchors_add_up(model):
    found = walk(model)
    assert sum(found.anchor_shares) == pytest.approx(1)
    assert found.anchors == sorted(found.anchors)
    assert 1 <= found.perplexity <= 20


def test_class_means_are_means_over_the_images_of_a_class(model):
    columns = walk(model).columns
    for row in by_class(columns, DATA.class_names):
        here = columns["label"] == DATA.class_names.index(row["class"])
        assert row["images"] == int(here.sum())
        assert row["kl_bits"] == pytest.approx(float(columns["kl_bits"][here].mean()), rel=1e-5)


def test_a_map_that_is_the_mask_is_located_perfectly_and_beside_the_controls(monkeypatch):
    from aib.interpret import comparison

    def maps(model, x, batch, name, seed, chunk):
        return batch.masks.float() if name == "own" else real(model, x, batch, name, seed, chunk)

    real = comparison.maps_from
    monkeypatch.setattr(comparison, "maps_from", maps)
    found = compare(
        make_model("tiny_aib", DATA), feed(DATA), ("own", "centre", "random"), masks=True, steps=2
    )
    assert found.localisation["own"]["auroc"] == 1
    assert found.localisation["own"]["energy"] == found.localisation["own"]["pointing"] == 1
    assert abs(found.localisation["random"]["auroc"] - 0.5) < 0.1
    curve = found.faithfulness["own"]["deletion_curve"]
    assert len(curve) == 3 and curve[0] == pytest.approx(
        found.faithfulness["centre"]["deletion_curve"][0]
    )


def test_how_far_integrated_gradients_miss_the_change_of_the_class_score_is_measured():
    pytest.importorskip("captum")
    model = make_model("tiny_aib_qt", DATA)
    named = ("integrated_gradients", "centre")
    found = compare(model, feed(DATA), named, masks=False, steps=1)
    assert "completeness_gap" not in found.faithfulness["centre"]
    x = model.preprocessing.normalise(DATA.images)
    with torch.no_grad():
        scores = model(x, deterministic=True).sample_logits[0, 0]
        blank = model(torch.zeros_like(x), deterministic=True).sample_logits[0, 0]
    classes = scores.argmax(1)
    change = (scores - blank).gather(1, classes[:, None])[:, 0]
    missed = make_maps(model, x, "integrated_gradients", classes).sum((1, 2)) - change
    gap = float(missed.abs().sum() / change.abs().sum())
    assert gap > 0
    assert found.faithfulness["integrated_gradients"]["completeness_gap"] == pytest.approx(
        gap, rel=1e-3
    )


def test_what_cannot_be_located_is_said(tmp_path):
    from dataclasses import replace

    assert no_masks(DATA) is None
    assert "neither" in no_masks(replace(DATA, masks=None))
    crops = torch.zeros(20, 4)
    from aib.data import ImageFiles

    files = ImageFiles(tuple(tmp_path for _ in range(20)), crops)
    cut = replace(DATA, images=None, masks=None, files=files)
    assert "cut to the objects' boxes" in no_masks(cut)


def test_without_captum_the_controls_remain(monkeypatch):
    from aib.interpret import comparison

    monkeypatch.setattr(comparison, "has_captum", lambda: False)
    assert sources(True) == ("own", "centre", "random")
    monkeypatch.setattr(comparison, "has_captum", lambda: True)
    assert sources(False) == ("gradcam", "integrated_gradients", "centre", "random")
