"""Explanations of images: from one forward pass, and from any kind of source."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import features

import aib
from aib.figures.row import _draw_text
from aib.interpret import maps as maps_module
from aib.interpret.maps import explain_batch, make_maps, own_maps
from aib.interpret.posthoc import gradcam_layer
from aib.models.masked import information_bits
from tests.helpers import SmallNet, eval_model, photo, pixels, shapes
from tests.interpret.planted import FromRed

X = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def explain_without_noise(model):
    return explain_batch(model, X, deterministic=True)


def test_an_explanation_holds_what_the_deterministic_pass_gives():
    model = eval_model()
    seen, out = explain_without_noise(model), model(X, deterministic=True)
    assert torch.equal(seen.probabilities, out.logits.softmax(-1))
    assert torch.equal(seen.map, out.attention.a_q[0])
    assert torch.equal(seen.map, seen.anchors[seen.level_indices])
    mu, sigma = out.latent.mu[0], out.latent.sigma[0]
    nats = 0.5 * (mu**2 + sigma**2 - 1 - 2 * sigma.log()).sum(-1)
    torch.testing.assert_close(seen.kl_bits, nats / torch.log(torch.tensor(2.0)))


def test_a_model_without_attention_has_a_decision_and_bits_and_nothing_else():
    seen = explain_without_noise(eval_model("tiny_dvib"))
    assert seen.map is None and seen.method is None and seen.level_indices is None
    assert seen.energy_passed is None
    assert seen.kl_bits.shape == (3,)
    with pytest.raises(aib.AibError, match="gradcam"):
        own_maps(eval_model("tiny_dvib"), X)


def test_an_attached_model_is_explained_like_any_other():
    model = aib.attach(SmallNet(4), "features", 4, quantizer=5, image_size=32, latent_dim=8).eval()
    seen = explain_without_noise(model)
    assert seen.map.shape == (3, 16, 16) and seen.energy_passed.shape == (3,)
    assert gradcam_layer(model, X) == "tail.more.1"


@pytest.mark.parametrize("method", ["own", "gradcam"])
def test_explaining_a_model_in_training_does_not_change_it(method):
    if method != "own":
        pytest.importorskip("captum")
    model = eval_model().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    maps = make_maps(model, X, method)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training and torch.equal(maps, make_maps(model.eval(), X, method))


def test_the_seed_gives_the_samples_and_leaves_the_global_generator_alone():
    model = eval_model()
    state = torch.get_rng_state()
    first, again, other = (explain_batch(model, X, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.sample_maps, again.sample_maps)
    assert not torch.equal(first.probabilities, other.probabilities)
    assert first.samples == "4x12" and len(first.sample_probabilities) == 48
    torch.testing.assert_close(first.probabilities, first.sample_probabilities.mean(0))


def test_auto_takes_grad_cam_where_the_model_has_no_map(monkeypatch):
    pytest.importorskip("captum")
    plain = eval_model("tiny")
    found = explain_batch(plain, X, method="auto")
    assert found.method == "gradcam" and found.layer == gradcam_layer(plain, X)
    assert torch.equal(found.map, make_maps(plain, X, "gradcam")) and found.sigma is None
    assert explain_batch(eval_model(), X, method="auto").method == "own"
    monkeypatch.setattr(maps_module, "has_captum", lambda: False)
    assert explain_batch(plain, X, method="auto").map is None


def test_a_post_hoc_map_of_a_masked_model_is_shown_and_saved_itself(tmp_path):
    pytest.importorskip("captum")
    model = eval_model("tiny_aib_masked", shapes(2))
    found = aib.explain(model, pixels(1), method="saliency", deterministic=True)
    assert found.mask is found.seen is found.bits is None
    found.save(tmp_path)
    assert np.array_equal(np.load(tmp_path / "image.npy"), found.map[0].numpy())


def test_a_path_an_image_an_array_and_a_tensor_give_the_same_explanation(tmp_path):
    model, image, passes = eval_model(data=shapes(2)), photo(90, 60), []
    model.register_forward_hook(lambda *_: passes.append(1))
    image.save(path := tmp_path / "photo.png")
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    sources = (path, str(path), image, np.array(image), tensor, tensor[None])
    found = [aib.explain(model, source) for source in sources]
    assert all(torch.equal(f.probabilities, found[0].probabilities) for f in found)
    assert all(np.array_equal(f.images[0], np.array(image)) for f in found)
    assert all(f.regions[0].mask.shape == (60, 90) for f in found)
    assert [len(f.paths) for f in found] == [1, 1, 0, 0, 0, 0]
    assert len(passes) == 6  # one forward pass is enough


def test_pixels_and_normalised_images_give_the_same_explanation():
    model, batch = eval_model(data=shapes(2)), pixels(3)
    from_pixels = aib.explain(model, batch, deterministic=True)
    from_floats = aib.explain(model, model.preprocessing.normalise(batch), deterministic=True)
    alone = aib.explain(model, batch[1], deterministic=True)
    assert torch.equal(from_pixels.probabilities, from_floats.probabilities)
    torch.testing.assert_close(from_pixels.probabilities[1:2], alone.probabilities)
    for found in (from_pixels, from_floats):
        assert np.array_equal(np.stack(found.images), batch.permute(0, 2, 3, 1).numpy())


@pytest.mark.parametrize(
    "source",
    [
        np.zeros((8, 8)),
        np.zeros((8, 8, 4), np.uint8),
        torch.zeros(8, 8),
        torch.zeros(0, 3, 8, 8, dtype=torch.uint8),
        7,
        None,
        shapes(2),
        [[]],
    ],
)
def test_what_is_no_image_is_refused(source):
    with pytest.raises(aib.AibError, match="must be"):
        aib.explain(eval_model(data=shapes(2)), source)


def test_an_image_without_a_decision_is_an_error():
    """NaN is no probability of the first class."""
    x = X.clone()
    x[1, 0, 0, 0] = torch.nan
    with pytest.raises(aib.AibError, match="the model gives NaN for 1 of the 3 images"):
        aib.explain(eval_model(data=shapes(2)), x)


def test_the_saved_map_of_a_masked_model_is_the_mask_that_was_applied(tmp_path):
    model, batch = eval_model("tiny_aib_masked", shapes(2)), pixels(2)
    model.propose = FromRed(gain=2, stride=2)
    found = aib.explain(model, batch, samples=(2, 1))  # the probabilities are those of samples
    assert found.save(tmp_path) == [tmp_path / "image.png", tmp_path / "image-2.png"]
    x = model.preprocessing.normalise(batch)
    mask = model(x, deterministic=True).mask[0].detach().numpy()
    assert (mask == 0).any() and (mask == 1).any() and len(np.unique(mask)) > 100
    bits = information_bits(x, torch.from_numpy(mask), model.noise_std).sum((1, 2))
    for i, name in enumerate(("image", "image-2")):
        assert np.array_equal(np.load(tmp_path / f"{name}.npy"), mask[i])
        record = json.loads((tmp_path / f"{name}.json").read_text())
        assert record["map_size"] == [32, 32] and record["map_range"] == [0, 1]
        assert record["prediction"] == found.names()[i] and record["seed"] == 0
        assert record["area"] == pytest.approx(mask[i].mean(), rel=1e-5)
        assert record["mask_bits"] == pytest.approx(float(bits[i]), rel=1e-5)
    panels = found.panels(1)
    titles = [panel.title for panel in panels]
    assert titles[:3] == ["image\n(box: map > 0.5)", "seen by the classifier", "attention map"]
    assert titles[3] == f"bits per pixel ({float(bits[1]):,.0f} pass)"
    assert np.array_equal(panels[1].values, found.seen_pixels[1].permute(1, 2, 0))


def test_a_masked_model_is_explained_with_two_samples_unless_told():
    model = eval_model("tiny_aib_masked", shapes(2))
    batch = pixels(2)
    found, two = aib.explain(model, batch), aib.explain(model, batch, samples=(2, 12))
    assert found.samples == "2x12" and torch.equal(found.probabilities, two.probabilities)
    assert aib.explain(model, batch, samples=(4, 12)).samples == "4x12"
    assert aib.explain(model, batch, deterministic=True).samples == "deterministic"
    assert aib.explain(eval_model(data=shapes(2)), batch).samples == "4x12"


@pytest.mark.parametrize("kind", ["png", "npy", "json", "mask.png", "classes.npy"])
def test_saving_never_overwrites_a_file_of_the_user(tmp_path, kind):
    found = aib.explain(eval_model(data=shapes(2)), photo())
    found.save(tmp_path)
    theirs = tmp_path / f"image.{kind}"
    theirs.write_bytes(b"mine")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(aib.AibError, match="would be overwritten"):
        found.save(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_saving_needs_a_map_and_a_name_per_image(tmp_path):
    model = eval_model(data=shapes(2))
    with pytest.raises(aib.AibError, match="images and maps"):
        explain_batch(model, X).save(tmp_path)
    with pytest.raises(aib.AibError, match="2 different names"):
        aib.explain(model, pixels(2)).save(tmp_path, ["one", "one"])


@pytest.mark.skipif(not features.check("raqm"), reason="needs Pillow with Raqm and FriBiDi")
@pytest.mark.parametrize("name", ["كلب صغير", "כלב קטן", "cat"])
def test_the_title_of_a_picture_begins_with_the_name(name, monkeypatch):
    data = shapes(2)
    policy = replace(data.preprocessing, class_names=(name,) * 10)
    titles = []
    draw = "aib.models.explanation.draw_row"
    monkeypatch.setattr(draw, lambda *_, title, **__: titles.append(title))
    aib.explain(eval_model(data=replace(data, preprocessing=policy)), pixels(1)).draw()
    title, alone = (np.asarray(_draw_text(text, 18)) for text in (titles[0], name))
    height, width = min(len(title), len(alone)), alone.shape[1] - 1
    assert title.shape[1] > 3 * width
    assert np.array_equal(title[:height, :width], alone[:height, :width])
