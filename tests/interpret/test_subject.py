"""Our models as the measurements see them."""

import pytest
import torch
import torch.nn.functional as F

import aib
from aib.interpret.maps import METHODS, gradcam_layer, logits, look, make_maps, own_maps, takes_maps
from tests.interpret.small import Net, make_model

X = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def test_one_look_sees_what_the_deterministic_pass_gives():
    model = make_model()
    seen, out = look(model, X), model(X, deterministic=True)
    assert torch.equal(seen.logits, out.logits)
    assert torch.equal(seen.maps, own_maps(model, X))
    assert torch.equal(seen.maps, model.quantizer.anchors[seen.indices])
    mu, sigma = out.latent.mu[0], out.latent.sigma[0]
    nats = 0.5 * (mu**2 + sigma**2 - 1 - 2 * sigma.log()).sum(-1)
    torch.testing.assert_close(seen.kl_bits, nats / torch.log(torch.tensor(2.0)))


def test_the_energy_passed_is_that_of_the_gated_features():
    model = make_model("tiny_aib")
    seen, f = look(model, X), model.stem(X)
    passed = (f * seen.maps[:, None]).square().sum((1, 2, 3)) / f.square().sum((1, 2, 3))
    torch.testing.assert_close(seen.energy, passed)


def test_a_model_without_attention_has_a_decision_and_bits_and_nothing_else():
    seen = look(make_model("tiny_dvib"), X)
    assert seen.maps is None and seen.indices is None and seen.energy is None
    assert seen.kl_bits.shape == (3,)
    with pytest.raises(aib.AibError, match="gradcam"):
        own_maps(make_model("tiny_dvib"), X)


@pytest.mark.parametrize(
    ("name", "said"),
    [("tiny_aib", None), ("wrn_abn", None), ("tiny", "no map"), ("vgg_att3", "several maps")],
)
def test_whether_a_map_can_be_replaced_is_said_in_words(name, said):
    answer = takes_maps(make_model(name))
    assert answer is None if said is None else said in answer


def test_a_replaced_map_reaches_the_decision():
    model = make_model()
    zero = torch.zeros(3, 8, 8)
    assert not torch.equal(logits(model, X, zero), logits(model, X))
    assert torch.equal(logits(model, X, own_maps(model, X)), logits(model, X))


@pytest.mark.parametrize(
    "name", ["tiny", "tiny_aib_qt", "vgg", "vgg_gap", "vgg_pan", "vgg_att2", "vgg_att3", "wrn_abn"]
)
def test_grad_cam_is_read_from_the_last_grid_on_the_way_to_the_decision(name):
    model = make_model(name)
    layer = gradcam_layer(model, X)
    assert not layer.startswith(("attention", "contexts", "compatibilities", "project"))
    seen = []
    dict(model.named_modules())[layer].register_forward_hook(lambda m, i, o: seen.append(o))
    model(X, deterministic=True)
    assert len(seen) == 1 and min(seen[0].shape[2:]) >= 4
    assert min(seen[0].shape[2:]) <= 8, "it should not be a layer near the image"


def test_an_attached_model_is_looked_at_like_any_other():
    model = aib.attach(Net(), "first", 4, quantizer=5, image_size=32, latent_dim=8).eval()
    seen = look(model, X)
    assert seen.maps.shape == (3, 16, 16) and seen.energy.shape == (3,)
    assert gradcam_layer(model, X) == "tail.second"


@pytest.mark.parametrize("method", ["own", "gradcam"])
def test_looking_at_a_model_in_training_does_not_change_it(method):
    if method != "own":
        pytest.importorskip("captum")
    model = make_model().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    maps = make_maps(model, X, method)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training and torch.equal(maps, make_maps(model.eval(), X, method))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_map_an_image(method):
    pytest.importorskip("captum")
    maps = make_maps(make_model(), X, method, chunk=8)
    assert len(maps) == 3 and maps.ndim == 3 and maps.isfinite().all()


def raw_scores(model, x, classes):
    """The logits of the deterministic pass, before any softmax, of one class per image."""
    return model(x, deterministic=True).sample_logits.mean((0, 1)).gather(1, classes[:, None])[:, 0]


@pytest.mark.parametrize("profile", ["paper", "released"])
@pytest.mark.parametrize("name", ["tiny_aib_qt", "tiny", "vgg_att2", "wrn_abn"])
def test_grad_cam_weighs_features_by_the_gradient_of_the_raw_class_score(name, profile):
    pytest.importorskip("captum")
    model, classes = make_model(name, profile=profile), torch.tensor([0, 3, 7])
    features = []
    layer = dict(model.named_modules())[gradcam_layer(model, X)]
    hook = layer.register_forward_hook(lambda module, inputs, output: features.append(output))
    score = raw_scores(model, X, classes).sum()
    hook.remove()
    [gradient] = torch.autograd.grad(score, features[0])
    cam = (features[0] * gradient.mean((2, 3), keepdim=True)).sum(1, keepdim=True).relu()
    cam = F.interpolate(cam, size=(32, 32), mode="bilinear", align_corners=False)[:, 0].detach()
    assert cam.amax() > 0
    found = make_maps(model, X, "gradcam", classes)
    torch.testing.assert_close(found / cam.amax(), cam / cam.amax(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("profile", ["paper", "released"])
def test_the_gradient_and_the_occlusion_are_those_of_the_raw_class_score(profile):
    pytest.importorskip("captum")
    model, classes = make_model(profile=profile), torch.tensor([0, 3, 7])
    x = X.clone().requires_grad_()
    [gradient] = torch.autograd.grad(raw_scores(model, x, classes).sum(), x)
    expected = gradient.abs().amax(1)
    found = make_maps(model, X, "saliency", classes)
    torch.testing.assert_close(found / expected.amax(), expected / expected.amax())
    corner = X.clone()
    corner[:, :, :8, :8] = 0  # the first window is the only one that covers the first 4 x 4 pixels
    drop = (raw_scores(model, X, classes) - raw_scores(model, corner, classes)).detach()
    maps = make_maps(model, X, "occlusion", classes)
    torch.testing.assert_close(maps[:, 0, 0], drop, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("profile", ["paper", "released"])
def test_integrated_gradients_add_up_to_the_change_of_the_raw_class_score(profile):
    pytest.importorskip("captum")
    model, classes = make_model("tiny_aib", profile=profile), torch.tensor([0, 3, 7])
    blank = torch.zeros_like(X)
    change = (raw_scores(model, X, classes) - raw_scores(model, blank, classes)).detach()
    total = make_maps(model, X, "integrated_gradients", classes).sum((1, 2))
    assert (total - change).abs().sum() < 0.02 * change.abs().sum(), (total, change)
