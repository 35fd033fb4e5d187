"""Parameter groups, optimizers, schedules and the weight average."""

import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

import aib
from aib.config.presets import get_preset
from aib.config.settings import Settings
from aib.config.validation import ProfileName
from aib.training.ema import WeightAverage
from aib.training.optim import (
    area_at,
    beta_at,
    learning_rate,
    load_optimizer_state,
    make_optimizer,
    parameter_groups,
)
from tests.helpers import SmallNet


def test_no_bias_decays_whatever_a_layer_calls_it() -> None:
    layers = {"attention": nn.MultiheadAttention(4, 2, add_bias_kv=True), "rnn": nn.GRU(4, 3)}
    model = nn.ModuleDict(layers | {"linear": nn.Linear(4, 2), "norm": nn.LayerNorm(4)})
    groups = [g for g in parameter_groups(model, 0.5) if g["weight_decay"]]
    decaying = {id(p) for g in groups for p in g["params"]}
    assert {name for name, p in model.named_parameters() if id(p) in decaying} == {
        "attention.in_proj_weight", "attention.out_proj.weight",
        "rnn.weight_ih_l0", "rnn.weight_hh_l0", "linear.weight",
    }  # fmt: skip


@pytest.mark.parametrize("profile", ["paper", "released"])
def test_two_steps_follow_the_profiles_momentum_and_decay(profile: ProfileName) -> None:
    """With g + decay p for g: v = 0.9 v + g, then p -= lr v, or Nesterov's p -= lr (g + 0.9 v)."""
    torch.manual_seed(0)
    model = aib.create_model("tiny_aib_qt", width=0.25, profile=profile).double()
    optimizer = make_optimizer(model, Settings(lr=0.2, weight_decay=0.5))
    named = dict(model.named_parameters())
    want = {name: p.detach().clone() for name, p in named.items()}
    speed = {name: torch.zeros_like(p) for name, p in want.items()}
    for step in range(2):
        for name, p in named.items():
            p.grad = torch.randn_like(p)
            decays = profile == "released" or p.dim() > 1
            g = p.grad + (0.5 * want[name] if decays else 0)
            speed[name] = g if step == 0 else 0.9 * speed[name] + g
            ahead = g + 0.9 * speed[name] if profile == "paper" else speed[name]
            want[name] = want[name] - 0.2 * ahead
        optimizer.step()
    for name, p in named.items():
        torch.testing.assert_close(p.detach(), want[name], msg=name)


def test_a_rate_on_the_device_gives_the_same_steps_and_a_compatible_state() -> None:
    s = Settings(lr=0.05)
    plain = aib.create_model("tiny", width=0.25)
    other = deepcopy(plain)
    usual, fused = make_optimizer(plain, s), make_optimizer(other, s, on_device=True)
    for group in fused.param_groups:
        group["lr"] = torch.tensor(0.05)
    for model, optimizer in ((plain, usual), (other, fused)):
        for step in range(3):
            for i, p in enumerate(model.parameters()):
                p.grad = torch.full_like(p, 0.1 * (step + 1) + 0.01 * i)
            optimizer.step()
    for expected, found in zip(plain.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found, expected)
    load_optimizer_state(usual, fused.state_dict())
    assert usual.param_groups[0]["lr"] == 0.05 and not usual.param_groups[0]["fused"]


def test_the_papers_vgg_schedule_halves_every_25_epochs() -> None:
    s = Settings()
    for epoch in range(200):
        want = 0.1 * 0.5 ** min(epoch // 25, 7)
        assert learning_rate(s, epoch * 10 + 9, 10) == pytest.approx(want)


def test_the_released_schedules_are_those_of_the_authors_code() -> None:
    """After VGG's warm-up: their scheduler counts the first epoch as 1; WRN has no warm-up."""
    vgg, wrn = (get_preset(f"cifar10_{m}_aib_qt_released").settings for m in ("vgg", "wrn"))
    for epoch in range(200):
        if epoch >= 2:
            want = 0.1 * 0.5 ** ((epoch + 1) // 25)
            assert learning_rate(vgg, epoch * 10, 10) == pytest.approx(want)
        want = 0.1 * 0.2 ** ((epoch >= 60) + (epoch >= 120) + (epoch >= 160))
        assert learning_rate(wrn, epoch * 10, 10) == pytest.approx(want)


def test_warmup_is_linear_and_cosine_ends_at_zero() -> None:
    s = Settings(schedule="cosine", warmup=2, epochs=10, lr=0.4)
    rates = [learning_rate(s, step, 5) for step in range(50)]
    assert rates[:10] == pytest.approx([0.4 * (i + 1) / 10 for i in range(10)])
    assert rates[30] == pytest.approx(0.4 * 0.5 * (1 + math.cos(math.pi * 0.5)))
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert learning_rate(s, 50, 5) == pytest.approx(0, abs=1e-9)
    assert learning_rate(replace(s, warmup=0.5), 0, 10) == pytest.approx(0.2 * 0.4)


def test_beta_rises_linearly_to_its_value() -> None:
    s = Settings(beta=0.2, beta_warmup=2)
    assert [beta_at(s, step, 4) for step in (0, 4, 8, 100)] == pytest.approx([0, 0.1, 0.2, 0.2])
    assert beta_at(replace(s, beta_warmup=0), 0, 4) == 0.2


def test_the_budget_falls() -> None:
    areas = [area_at(0.25, step, 1000) for step in (0, 50, 250, 450, 999)]
    assert areas == pytest.approx([1, 1, 0.625, 0.25, 0.25])


def test_the_weight_average_follows_its_formula() -> None:
    model = aib.create_model("tiny_aib_qt", width=0.25)
    average = WeightAverage(model, 0.9)
    want = {k: v.double() for k, v in model.state_dict().items()}
    for _ in range(3):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p))
            model.quantizer.usage += 5
            model.stem[0][0][1].running_mean += 1
        average.update(model)
        for k, v in model.state_dict().items():
            smooth = v.is_floating_point()
            want[k] = 0.9 * want[k] + 0.1 * v.double() if smooth else v.double()
    for k, v in average.model.state_dict().items():
        torch.testing.assert_close(v.double(), want[k], rtol=1e-5, atol=1e-6)


def test_a_tied_weight_is_averaged_once() -> None:
    network = SmallNet()
    network.more.append(nn.Conv2d(6, 6, 1))
    network.more.append(nn.Conv2d(6, 6, 1))
    network.more[-1].weight = network.more[-2].weight
    model = aib.attach(network, "features", 4, latent_dim=8, image_size=32)
    average = WeightAverage(model, 0.9)
    before = {name: p.clone() for name, p in average.model.named_parameters()}
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1.0)
    average.update(model)
    for name, p in average.model.named_parameters():
        torch.testing.assert_close(p, before[name] + 0.1, msg=name)
    assert average.model.tail.more[-1].weight is average.model.tail.more[-2].weight
