"""The loss, term by term, against arithmetic done by hand."""

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

import aib
from aib.models.types import Attention, Latent, Output

S, M, B, C, K = 2, 3, 4, 5, 6


def output(quantised=True, auxiliary=False):
    mu = torch.rand(B, 4, 4)
    a = torch.rand(S, B, 4, 4)
    terms = (torch.tensor(0.25), torch.tensor(0.5)) if quantised else (None, None)
    attention = Attention(mu, mu, a, a, None, *terms)
    latent = Latent(torch.randn(S, B, K), torch.rand(S, B, K) + 0.1, torch.randn(S, M, B, K))
    aux_logits = torch.randn(B, C) if auxiliary else None
    logits = torch.randn(S, M, B, C) * 3
    return Output(logits, attention, latent, aux_logits)


def labels():
    return torch.tensor([0, 4, 2, 2])


def nll_of(row, label):
    return math.log(sum(math.exp(v) for v in row)) - row[label]


def test_nll_is_the_mean_over_samples_and_images():
    out, y = output(), labels()
    rows = [
        nll_of(out.sample_logits[s, m, b].tolist(), int(y[b]))
        for s in range(S)
        for m in range(M)
        for b in range(B)
    ]
    assert aib.aib_loss(out, y).nll.item() == pytest.approx(sum(rows) / len(rows), rel=1e-5)


def test_released_nll_is_that_of_the_mean_logits():
    out, y = output(), labels()
    mean = out.sample_logits.mean((0, 1)).tolist()
    expected = sum(nll_of(row, int(label)) for row, label in zip(mean, y, strict=True)) / B
    nll = aib.aib_loss(out, y, profile="released").nll
    assert nll.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("profile", ["paper", "released"])
def test_kl_is_summed_over_dimensions_and_averaged_over_samples_and_images(profile):
    out = output()
    deviation = out.latent.sigma if profile == "paper" else out.latent.sigma.exp()
    divergence = kl_divergence(Normal(out.latent.mu, deviation), Normal(0.0, 1.0))
    expected = divergence.sum() / (S * B)
    torch.testing.assert_close(aib.aib_loss(out, labels(), profile=profile).kl, expected)


@pytest.mark.parametrize(("profile", "unit"), [("paper", 1.0), ("released", 1 / 0.693147)])
def test_total_is_the_weighted_sum(profile, unit):
    """The released profile has likelihood and KL in bits, and the quantiser's terms unchanged."""
    weights = {"beta": 0.3, "lambda_q": 0.7, "lambda_c": 0.2, "profile": profile}
    terms = aib.aib_loss(output(auxiliary=True), labels(), **weights)
    nats = terms.nll.item() + 0.3 * terms.kl.item() + terms.auxiliary.item()
    assert terms.total.item() == pytest.approx(unit * nats + 0.7 * 0.25 + 0.2 * 0.5, rel=1e-5)


def test_an_unknown_budget_is_an_error():
    with pytest.raises(aib.AibError, match="budget must be one of 'mean', 'image'"):
        aib.aib_loss(output(), labels(), budget="median")


def test_terms_that_a_model_does_not_have_are_zero():
    terms = aib.aib_loss(Output(torch.randn(1, 1, B, C)), labels())
    assert terms.kl == terms.quantization == terms.commitment == terms.auxiliary == 0
    assert torch.equal(terms.total, terms.nll)


@pytest.mark.parametrize("profile", ["paper", "released"])
def test_labels_may_be_probabilities(profile):
    """The likelihood is linear in the labels, and that of a certain label is that of its index."""
    out, y = output(auxiliary=True), labels()
    certain, other = torch.eye(C)[y], torch.eye(C)[y.flip(0)]
    hard, mirrored, soft, mixed = (
        aib.aib_loss(out, given, profile=profile)
        for given in (y, y.flip(0), certain, 0.7 * certain + 0.3 * other)
    )
    for name in ("total", "nll", "auxiliary"):
        first, last = getattr(hard, name), getattr(mirrored, name)
        torch.testing.assert_close(getattr(soft, name), first)
        torch.testing.assert_close(getattr(mixed, name), 0.7 * first + 0.3 * last)
