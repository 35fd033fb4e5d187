"""Explanations of images: from one forward pass, and from any kind of source."""

import numpy as np
import pytest
import torch

import aib
from aib.interpret import maps as maps_module
from aib.interpret.maps import explain_batch, own_maps
from aib.interpret.posthoc import gradcam_layer, gradcam_maps
from tests.helpers import eval_model, photo, pixels, shapes

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
    assert seen.kl_bits.shape == (3,)
    with pytest.raises(aib.AibError, match="gradcam"):
        own_maps(eval_model("tiny_dvib"), X)


@pytest.mark.parametrize("make", [own_maps, gradcam_maps])
def test_explaining_a_model_in_training_does_not_change_it(make):
    if make is gradcam_maps:
        pytest.importorskip("captum")
    model = eval_model().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    maps = make(model, X)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training and torch.equal(maps, make(model.eval(), X))


def test_the_seed_gives_the_samples_and_leaves_the_global_generator_alone():
    model = eval_model()
    state = torch.get_rng_state()
    first, again, other = (explain_batch(model, X, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.probabilities, again.probabilities)
    assert not torch.equal(first.probabilities, other.probabilities)
    assert first.samples == "4x12"


def test_auto_takes_grad_cam_where_the_model_has_no_map(monkeypatch):
    pytest.importorskip("captum")
    plain = eval_model("tiny")
    found = explain_batch(plain, X, method="auto")
    assert found.method == "gradcam" and found.layer == gradcam_layer(plain, X)
    assert torch.equal(found.map, gradcam_maps(plain, X)) and found.sigma is None
    assert explain_batch(eval_model(), X, method="auto").method == "own"
    monkeypatch.setattr(maps_module, "has_captum", lambda: False)
    assert explain_batch(plain, X, method="auto").map is None


def test_a_post_hoc_map_of_a_masked_model_is_shown_and_saved_itself(tmp_path):
    pytest.importorskip("captum")
    model = eval_model("tiny_aib_masked", shapes(2))
    found = aib.explain(model, pixels(1), method="gradcam", deterministic=True)
    assert found.mask is found.seen is found.bits is None
    found.save(tmp_path)
    assert np.array_equal(np.load(tmp_path / "image.npy"), found.map[0].numpy())


def test_a_path_an_image_an_array_and_a_tensor_give_the_same_explanation(tmp_path):
    model, image, passes = eval_model(data=shapes(2)), photo(90, 60), []
    model.register_forward_hook(lambda *_: passes.append(1))
    image.save(path := tmp_path / "photo.png")
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    sources = (path, str(path), image, np.array(image), tensor, tensor[None], [path])
    found = [aib.explain(model, source) for source in sources]
    assert all(torch.equal(f.probabilities, found[0].probabilities) for f in found)
    assert all(np.array_equal(f.images[0], np.array(image)) for f in found)
    assert [len(f.paths) for f in found] == [1, 1, 0, 0, 0, 0, 1]
    assert len(passes) == 7  # one forward pass is enough


def test_a_list_of_paths_is_a_batch(tmp_path):
    model, paths = eval_model(data=shapes(2)), [tmp_path / f"{i}.png" for i in range(2)]
    for i, path in enumerate(paths):
        photo(90, 60 + i, seed=i).save(path)
    both = aib.explain(model, [paths[0], str(paths[1])], deterministic=True)
    assert both.paths == tuple(paths)
    for i, path in enumerate(paths):
        alone = aib.explain(model, path, deterministic=True)
        torch.testing.assert_close(both.probabilities[i : i + 1], alone.probabilities)
        assert np.array_equal(both.images[i], alone.images[0])


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


def test_a_masked_model_without_a_latent_is_explained_by_one_pass_unless_told():
    batch = pixels(2)
    for name, samples, options in (
        ("lite0_masked", "deterministic", {"image_size": 224}),
        ("tiny_aib_masked", "4x12", {}),
        ("tiny_aib_qt", "4x12", {}),
    ):
        model = eval_model(name, shapes(2), **options)
        found = aib.explain(model, batch)
        same = aib.explain(model, batch, deterministic=samples == "deterministic")
        assert found.samples == samples and torch.equal(found.probabilities, same.probabilities)
        assert aib.explain(model, batch, samples=(2, 1)).samples == "2x1"
