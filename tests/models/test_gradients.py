"""Gradients of whole models: finite differences, who is moved by which term, who is reached."""

import pytest
import torch

import aib
from tests.helpers import latent_of

B, C, K, HW = 3, 4, 5, 8


def make(name, **options):
    options = latent_of(name, K) | options
    return aib.create_model(name, num_classes=C, **{"width": 1 / 8, **options})


def batch(dtype=torch.float32):
    noise = torch.randn(2, B, HW, HW, dtype=dtype), torch.randn(2, 2, B, K, dtype=dtype)
    return torch.randn(B, 3, 32, 32, dtype=dtype), torch.arange(B), noise


def without_kinks(model):
    """ReLU and max-pool swapped for smooth cousins: a difference may not step over a corner."""
    for layer in model.modules():
        for name, child in layer.named_children():
            if isinstance(child, torch.nn.ReLU):
                setattr(layer, name, torch.nn.SiLU())
            elif isinstance(child, torch.nn.MaxPool2d):
                setattr(layer, name, torch.nn.AvgPool2d(child.kernel_size))
    return model


@pytest.mark.parametrize("modulation", ["gate", "residual"])
@pytest.mark.parametrize("profile", ["paper", "released"])
def test_the_gradient_of_the_loss_is_its_finite_difference(profile, modulation):
    model = make("tiny_aib", profile=profile, modulation=modulation)
    model = without_kinks(model).double().train()
    x, y, noise = batch(torch.float64)

    def loss():
        return aib.aib_loss(model(x, samples=(2, 2), noise=noise), y, beta=0.1).total

    parameters = {
        "attention.trunk.weight": (0, 1, 2, 2),
        "attention.to_sigma.weight": (0, 0, 0, 0),
        "attention.to_sigma.bias": (0,),
        "stem.1.0.1.weight": (1,),
        "tail.1.0.weight": (2, 1, 0, 1),
        "head.encode.weight": (K, 1),  # a row of sigma_z
        "head.encode.bias": (0,),  # of mu_z
        "head.decode.2.weight": (1, 2),
    }
    loss().backward()
    step = 1e-5
    for name, index in parameters.items():
        parameter = model.get_parameter(name)
        with torch.no_grad():
            parameter[index] += step
            above = loss()
            parameter[index] -= 2 * step
            below = loss()
            parameter[index] += step
        numeric = (above - below).item() / (2 * step)
        assert parameter.grad[index].item() == pytest.approx(numeric, rel=1e-5, abs=1e-8), name


def moved_by(term, model):
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
    return {name for name, g in zip(names, gradients, strict=True) if g is not None}


@pytest.mark.parametrize(
    ("term", "parts"),
    [
        ("quantization", ("quantizer",)),
        ("commitment", ("stem", "attention")),
        ("nll", ("stem", "attention", "tail", "head")),
    ],
)
def test_each_term_moves_only_its_parts(term, parts):
    model = make("tiny_aib_qt")
    x, y, _ = batch()
    moved = moved_by(getattr(aib.aib_loss(model(x), y), term), model)
    assert moved == {n for n, _ in model.named_parameters() if n.startswith(parts)}


def has_no_use(name, model):
    """A bias right before a BatchNorm, which takes it away again."""
    before, _, leaf = name.rpartition(".")
    parent, _, index = before.rpartition(".")
    if leaf != "bias" or not index.isdigit():
        return False
    following = dict(model.get_submodule(parent).named_children()).get(str(int(index) + 1))
    return isinstance(following, torch.nn.BatchNorm2d)


@pytest.mark.parametrize("name", [*aib.list_models(), "tiny_aib_qt"])
def test_the_loss_reaches_every_parameter(name):
    model = make(name, width=1 / 16).train()
    x, y, _ = batch()
    aib.aib_loss(model(x), y).total.backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None]
    # a ReLU may be dead for three images, so a tensor counts as reached by any of its entries
    silent = [
        n
        for n, p in model.named_parameters()
        if p.grad is not None and not p.grad.any() and not has_no_use(n, model)
    ]
    assert missing == [] and silent == []
