"""Standard deviation, sampling and both KLs, against integration and torch.distributions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch.distributions import Normal, kl_divergence

from aib.models.gaussian import kl_released, kl_to_standard_normal, positive_sigma


def integrated_kl(mu, sigma):
    """The definition, E_p[log p - log r], as a sum over a fine grid."""
    z = np.linspace(mu - 12 * sigma, mu + 12 * sigma, 2001)
    log_p = -(((z - mu) / sigma) ** 2) / 2 - math.log(sigma)  # log r = -z^2 / 2, both + constant
    p = np.exp(log_p) / math.sqrt(2 * math.pi)
    return np.sum(p * (log_p + z**2 / 2)) * (z[1] - z[0])


@given(st.floats(-8, 8), st.floats(1e-3, 8))
def test_kl_is_the_integral_of_its_definition(mu, sigma):
    ours = kl_to_standard_normal(torch.tensor([mu]).double(), torch.tensor([sigma]).double())
    assert ours.item() == pytest.approx(integrated_kl(mu, sigma), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("released", [False, True])
def test_both_kls_agree_with_torch_and_add_over_dimensions(released):
    """The released code takes sigma for the log of the standard deviation."""
    mu, sigma = torch.randn(3, 5, 7), 3 * torch.rand(3, 5, 7) + 1e-3
    found = (kl_released if released else kl_to_standard_normal)(mu, sigma)
    reference = kl_divergence(Normal(mu, sigma.exp() if released else sigma), Normal(0.0, 1.0))
    torch.testing.assert_close(found, reference.sum(-1))


@pytest.mark.parametrize("kl", [kl_to_standard_normal, kl_released])
def test_gradients_of_the_kl_are_its_finite_differences(kl):
    mu = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    sigma = (torch.rand(3, 4, dtype=torch.float64) + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(kl, (mu, sigma))


def test_released_kl_stays_finite_where_its_exponential_would_overflow():
    sigma = torch.tensor([1e4], requires_grad=True)
    value = kl_released(torch.zeros(1), sigma)
    value.backward()
    assert value.isfinite() and sigma.grad.isfinite().all()
    assert value.item() == pytest.approx(0.5 * math.exp(2 * 20), rel=1e-3)


@given(st.floats(-1e4, 1e4))
def test_sigma_is_softplus_above_a_floor(raw):
    expected = max(raw - 5, 0) + math.log1p(math.exp(-abs(raw - 5)))
    sigma = positive_sigma(torch.tensor([raw]).double())
    assert sigma.item() >= 1e-4
    assert sigma.item() == pytest.approx(expected + 1e-4, rel=1e-6, abs=1e-9)
