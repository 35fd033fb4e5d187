"""Masked models: what the map closes never reaches the decision."""

import itertools
import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import aib
from aib.config.options import ModelOptions
from aib.errors import AibError
from aib.evaluation.error import evaluate
from aib.models.attention import SpatialAttention
from aib.models.backbones.propose import (
    FeatureProposal,
    FirstPass,
    ProposalNet,
    batch_norm_buffers,
)
from aib.models.backbones.vgg import tiny
from aib.models.latent import LinearHead, VariationalHead, mlp_decoder
from aib.models.loss import area_per_image
from aib.models.masked import Masked, information_bits
from aib.models.types import Attention, Noise
from tests.helpers import filled_model, image_set
from tests.models.networks.small import ResNet, Swin, ViT

C, K, SIDE = 5, 4, 16


def make(propose="separate", *, bottleneck=True, **options):
    torch.manual_seed(0)
    parts = tiny(ModelOptions())
    body = nn.Sequential(parts.stem, parts.tail)
    if propose == "twice":
        trunk, first_pass = FeatureProposal(parts.feature_channels, 8), FirstPass(body, "0")
    else:
        trunk, first_pass = ProposalNet(2, 0.1), None
    if bottleneck:
        head = VariationalHead(parts.embedding_dim, K, mlp_decoder(K, C))
    else:
        head = LinearHead(parts.embedding_dim, C)
    attention = SpatialAttention(trunk, None)
    return Masked(body, head, attention, C, first_pass=first_pass, **options).eval()


def images(count=3, seed=0, side=SIDE):
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


def noise(count=3, s=2, seed=1, side=SIDE):
    generator = torch.Generator().manual_seed(seed)
    eps_x = torch.randn(s, count, 3, side, side, generator=generator)
    return Noise(z=torch.randn(s, 1, count, K, generator=generator), x=eps_x)


def attach(network, at):
    torch.manual_seed(0)
    return aib.attach(network, at=at, num_classes=C, image_size=SIDE, masked=True).eval()


ATTACHED = {
    "resnet": attach(ResNet(), "layer2"),
    "vit": attach(ViT(), "blocks.1"),
    "swin": attach(Swin(), "features.1"),
}
LITE = {"lite0": filled_model("lite0_masked", 224)}  # with a copy
MODELS = {"separate": make(), "twice": make("twice"), **ATTACHED, **LITE}


def side_of(name):
    return 32 if name in LITE else SIDE


@settings(max_examples=30)
@given(st.sampled_from(sorted(MODELS)), st.integers(0, 2**31 - 1), st.floats(0.05, 0.95))
def test_closed_pixels_cannot_change_the_logits(name, seed, share):
    side = side_of(name)
    model, x, eps = MODELS[name], images(seed=seed, side=side), noise(seed=seed, side=side)
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(3, side, side, generator=generator)
    mask[torch.rand(mask.shape, generator=generator) < share] = 0
    closed = (mask == 0)[:, None].expand_as(x)
    before = model(x, samples=(2, 1), noise=eps, mask=mask).sample_logits
    for value in (1e6, math.inf, -math.inf, math.nan):
        changed = torch.where(closed, torch.full_like(x, value), x)
        after = model(changed, samples=(2, 1), noise=eps, mask=mask).sample_logits
        assert torch.equal(before, after)
    x.requires_grad_()
    model(x, samples=(2, 1), noise=eps, mask=mask).logits.square().sum().backward()
    assert (x.grad[closed] == 0).all() and (x.grad[~closed] != 0).any()


@pytest.mark.parametrize(("network", "head"), [(ResNet, "fc"), (ViT, "head"), (Swin, "head")])
def test_with_everything_open_an_attached_model_is_the_callers_network(network, head):
    """What the caller's network gives to its own head, through the new layer."""
    at = {"fc": "layer2", "head": "norm"}[head]
    plain, x, embeddings = network().eval(), images(), []
    model = attach(plain, at)
    plain.get_submodule(head).register_forward_pre_hook(lambda _, e: embeddings.append(*e))
    plain(x)
    logits = nn.functional.linear(embeddings[0], model.head.weight, model.head.bias)  # [B,C]
    out = model(x, samples=(2, 1), mask=torch.ones(3, SIDE, SIDE))
    torch.testing.assert_close(out.sample_logits, logits.expand(2, 1, 3, C))


@pytest.mark.parametrize("name", MODELS)
def test_a_deterministic_pass_does_not_depend_on_the_batch(name):
    model, x = MODELS[name], images(8, side=side_of(name))
    together = model(x, deterministic=True)
    alone = model(x[5:6], deterministic=True)
    torch.testing.assert_close(alone.logits[0], together.logits[5], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(alone.mask[:, 0], together.mask[:, 5], rtol=1e-5, atol=1e-6)
    assert torch.equal(model(x, deterministic=True).logits, together.logits)


def test_noise_is_new_in_every_pass_and_sample_and_has_its_scale():
    model, x = make(noise_std=0.5), torch.zeros(100, 3, SIDE, SIDE)
    seen = []
    model.body.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs[0].split(100)))
    for _ in range(2):
        model(x, samples=(2, 1), mask=torch.zeros(100, SIDE, SIDE))
    assert len(seen) == 4
    for one, other in itertools.combinations(seen, 2):
        assert not torch.equal(one, other)
    assert seen[0].std() == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_classifier_sees_image_and_noise_in_the_shares_of_the_mask(deterministic):
    model, x, seen = make(noise_std=0.5), images(), []
    model.body.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    mask, given = torch.rand(3, SIDE, SIDE), noise(s=1)
    model(x, (1, 1), mask=mask, deterministic=deterministic, noise=None if deterministic else given)
    eps = given.x[0].numpy()
    if deterministic:  # the one field that saved results and exported models rely on
        eps = np.random.Generator(np.random.PCG64(0)).standard_normal((3, SIDE, SIDE))
    m = mask[:, None].numpy()
    np.testing.assert_allclose(seen[0], m * x.numpy() + (1 - m) * 0.5 * eps, atol=1e-5)


def test_each_pass_has_running_statistics_of_its_own():
    """Against two copies of the network, of which one saw the images and one the masked images."""
    model, x = make("twice").train(), images(6)
    copies = [deepcopy(model).body for _ in range(2)]
    seen = []
    model.body.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    model(x)
    assert torch.equal(seen[0], x) and not torch.equal(seen[1], x)
    for copy, batch in zip(copies, seen.copy(), strict=True):
        copy(batch)
    first, second = map(batch_norm_buffers, copies)
    assert len(first) == len(second) > 0
    for name, value in batch_norm_buffers(model.body).items():
        torch.testing.assert_close(value, second[name])
        torch.testing.assert_close(model.first_pass.get_buffer(name.replace(".", "/")), first[name])


def test_area_has_the_value_of_the_mask_and_the_gradient_of_the_proposal():
    mu = torch.rand(2, 3, 3, requires_grad=True)
    mask = torch.rand(4, 2, 6, 6)
    area = area_per_image(mu, mask)
    torch.testing.assert_close(area, mask.transpose(0, 1).flatten(1).mean(1))
    area.sum().backward()
    torch.testing.assert_close(mu.grad, torch.full_like(mu, 1 / 9))


def test_bits_are_the_kl_of_the_masked_pixel_to_noise():
    """By numerical integration of p log(p / r) for one pixel and channel."""
    s = 0.7
    for m, value in ((0.2, 0.5), (0.6, -1.5), (0.9, 1.0)):
        std = s * (1 - m)
        grid = torch.linspace(m * value - 12 * std, m * value + 12 * std, 200_001).double()
        p = torch.exp(-((grid - m * value) ** 2) / (2 * std**2)) / math.sqrt(2 * math.pi * std**2)
        log_r = -(grid**2) / (2 * s**2) - math.log(math.sqrt(2 * math.pi) * s)
        log_p = -((grid - m * value) ** 2) / (2 * std**2) - math.log(math.sqrt(2 * math.pi) * std)
        bits = float(torch.trapezoid(p * (log_p - log_r), grid)) / math.log(2)
        x = torch.full((1, 3, 1, 1), value, dtype=torch.float64)
        found = information_bits(x, torch.full((1, 1, 1), m, dtype=torch.float64), s)
        assert float(found) == pytest.approx(3 * min(bits, 8), rel=1e-5)
    x = images(1)
    assert (information_bits(x, torch.ones(1, SIDE, SIDE), 1.0) == 24).all()
    x[0, :, 0, 0], x[0, :, 0, 1] = math.inf, math.nan
    assert (information_bits(x, torch.zeros(1, SIDE, SIDE), 1.0) == 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: m(x, mask=torch.ones(3, 8, 8)), r"mask .* must be \[3, 16, 16\]"),
        (lambda m, x: m(x, mask=torch.full((3, SIDE, SIDE), 1.5)), r"mask must lie in \[0, 1\]"),
        (lambda m, x: m(x, attention_map=torch.full((3, 4, 4), -0.1)), r"must lie in \[0, 1\]"),
        (lambda m, x: m(x, noise=Noise(x=torch.ones(1, 3, 3, 4, 4))), "noise for x"),
    ],
)
def test_bad_input_is_an_error(call, message):
    with pytest.raises(AibError, match=message):
        call(MODELS["separate"], images())


@pytest.mark.parametrize(
    ("name", "size", "propose", "grid"),  # of a map for 64 x 64 pixels
    [
        ("vgg_aib_masked", 32, None, 32),
        ("vgg_aib_masked", 32, "twice", 32),
        ("wrn_aib_masked", 224, None, 2),
        ("wrn_aib_masked", 224, "separate", 4),
        ("lite0_masked", 224, None, 8),
        ("lite0_masked", 224, "twice", 4),
    ],
)
def test_named_models_start_open_and_load_again(name, size, propose, grid, tmp_path):
    torch.manual_seed(0)
    model = aib.create_model(name, 4, size, width=1 / 32, propose=propose)
    assert isinstance(model.head, LinearHead) == (size == 224)
    x = images(2, side=64)
    out = model.train()(x)  # BatchNorm gets its statistics
    assert out.attention.mu.shape[1:] == (grid, grid) and out.mask.mean() > 0.7
    model.eval().save_pretrained(tmp_path)
    again, expected = aib.from_pretrained(tmp_path), model(x, deterministic=True)
    assert torch.equal(again(x, deterministic=True).logits, expected.logits)
    assert torch.equal(again.explain(x).mask, expected.mask[0])
    assert again.noise_std == (0.5 if "lite" in name else 1.0)


def test_the_options_of_masked_models_reach_them():
    model = aib.create_model("tiny_aib_masked", 4, width=0.25, area=0.5, noise_std=0.3)
    assert (model.noise_std, model.recipe["area"]) == (0.3, 0.5)
    model = aib.create_model("vgg_aib_masked", 4, 224, width=1 / 32, latent_dim=6)
    assert isinstance(model.head, VariationalHead) and model.eval_samples == (4, 12)


@pytest.mark.parametrize("name", MODELS)
def test_an_explanation_shows_the_mask_that_was_applied(name):
    model, x = MODELS[name], images(side=side_of(name))
    with torch.no_grad():  # with gradients a transformer's attention runs in another kernel
        out, expl = model(x, deterministic=True), model.explain(x)
    assert torch.equal(expl.mask, out.mask[0]) and expl.attention is expl.mask
    assert torch.equal(expl.bits, information_bits(x, out.mask[0], model.noise_std))
    assert expl.seen.shape == x.shape
    assert torch.equal(expl[1].mask, expl.mask[1:2])
    assert torch.equal(expl.map, out.attention.mu)  # which ranks positions


def test_the_loss_penalises_each_image_for_its_area_above_the_budget():
    model, x, y = make(), images(), torch.tensor([0, 1, 2])
    out = model(x, deterministic=True)
    areas = out.mask[0].mean((1, 2)).detach()
    excess = sum(max(float(a) - 0.3, 0.0) for a in areas) / 3
    free, tight = (aib.aib_loss(out, y, lambda_area=2.0, area=area) for area in (1.0, 0.3))
    assert free.excess.item() == 0 and tight.excess.item() == pytest.approx(excess, rel=1e-5)
    assert (tight.total - free.total).item() == pytest.approx(2 * excess, rel=1e-4)
    assert tight.area.item() == pytest.approx(float(areas.mean()), rel=1e-5)
    given = model(x, deterministic=True, mask=out.mask[0].detach() / 2)
    assert aib.aib_loss(given, y).area.item() == pytest.approx(float(areas.mean()) / 2, rel=1e-5)


@pytest.mark.parametrize("budget", [0.1, 0.5, 0.9])
def test_a_budget_for_the_mean_lets_one_image_use_what_another_leaves(budget):
    mu = torch.tensor([0.2, 0.6, 0.8])[:, None, None].repeat(1, 2, 2).requires_grad_()  # [B,h,w]
    mask = mu.detach()[None]  # [1,B,H,W]: areas 0.2, 0.6 and 0.8
    out = replace(make()(images(3)), attention=Attention.fixed(mu), mask=mask)
    terms = aib.aib_loss(out, torch.arange(3), area=budget, lambda_area=2.0, budget="mean")
    mean = (0.2 + 0.6 + 0.8) / 3
    assert float(terms.excess.detach()) == pytest.approx(max(mean - budget, 0), abs=1e-6)
    terms.total.backward()
    pull = 2.0 / mu.numel() if mean > budget else 0.0  # the same for every image
    torch.testing.assert_close(mu.grad, torch.full_like(mu, pull))


def test_evaluation_reports_area_and_bits():
    data = image_set(count=32, size=32)
    model = aib.create_model("tiny_aib_masked", data.num_classes, width=0.25)
    model.preprocessing = data.preprocessing
    found = evaluate(model, data, samples=(2, 1), batch_size=20, seed=3)
    torch.manual_seed(3)
    x = data.preprocessing.normalise(data.images)
    masks = torch.cat([model.eval()(part, samples=(2, 1)).mask for part in x.split(20)], 1).detach()
    bits = sum(information_bits(x, m, 1.0).sum() for m in masks) / 2 / len(x)
    assert found.area == pytest.approx(float(masks.mean()), rel=1e-5)
    assert found.mask_bits == pytest.approx(float(bits), rel=1e-5)


def test_the_mask_is_the_stretched_and_clipped_map():
    model, x = make(), images()
    a = torch.rand(3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    m = model(x, deterministic=True, attention_map=a).mask[0]
    torch.testing.assert_close(m, (1.1 * (a - 0.5) + 0.5).clamp(0, 1), rtol=0, atol=1e-5)
    assert (m[a < 0.04] == 0).all() and (m[a > 0.96] == 1).all()
