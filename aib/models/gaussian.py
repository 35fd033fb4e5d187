"""Diagonal Gaussians: positive standard deviation, reparameterised sample, KL to the prior."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.errors import AibError

# softplus(0 - 5) = 0.0067: training starts almost without noise (the released code's choice).
SIGMA_SHIFT = 5.0
# Keeps log(sigma) in the exact KL finite; without it training ends in NaN sooner or later.
SIGMA_FLOOR = 1e-4
# exp(2 * 20) = 2e17 is the most the released KL may reach before float32 overflows downstream.
RELEASED_SIGMA_CAP = 20.0


def widen(t: Tensor) -> Tensor:
    """Convert to at least float32, also under autocast; float64 stays as it is."""
    return t if t.dtype == torch.float64 else t.float()


def positive_sigma(raw: Tensor) -> Tensor:
    """Map any real number to a standard deviation above the floor, in float32 under autocast too.

    The floor is added: a clamp would have no gradient below it.
    """
    return F.softplus(widen(raw) - SIGMA_SHIFT) + SIGMA_FLOOR


def reparameterise(mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
    """A sample of N(mu, sigma^2), differentiable in mu and sigma."""
    return mu + sigma * noise


def noise_or_sample(
    noise: Tensor | None, shape: tuple[int, ...], like: Tensor, name: str
) -> Tensor:
    """The caller's noise, its shape checked, or a sample of N(0, 1) where none was given.

    It comes from the global generator: a Generator argument would break `fullgraph`.
    """
    if noise is None:
        return torch.randn(shape, device=like.device, dtype=like.dtype)
    if tuple(noise.shape) != shape:
        raise AibError(f"the noise for {name} must be {shape}, not {tuple(noise.shape)}")
    return noise


def kl_to_standard_normal(mu: Tensor, sigma: Tensor) -> Tensor:
    """KL[N(mu, sigma^2) || N(0, I)] in nats, summed over the last dimension.

    For one dimension, with p = N(mu, sigma^2) and r = N(0, 1),

        KL = E_p[log p - log r]
           = E_p[-log sigma - (z - mu)^2 / (2 sigma^2) + z^2 / 2]
           = -log sigma - 1/2 + (mu^2 + sigma^2) / 2

    because E_p[(z - mu)^2] = sigma^2 and E_p[z^2] = mu^2 + sigma^2. The dimensions are
    independent, so their KLs add. This bounds I(Z; X, A) from above (paper, Eq. 5).
    """
    return (0.5 * (mu.square() + sigma.square() - 1) - sigma.log()).sum(-1)


def nats_to_bits(nats: Tensor) -> Tensor:
    """Convert a KL divergence or an entropy from nats to bits."""
    return nats / math.log(2)


def kl_released(mu: Tensor, sigma: Tensor) -> Tensor:
    """The released code's KL: the same formula for N(mu, exp(sigma)^2), summed.

    Its derivative in sigma, exp(2 sigma) - 1, is never negative for sigma >= 0: it pushes the
    noise to zero, and what remains is an L2 penalty on mu.
    """
    log_std = sigma.clamp(max=RELEASED_SIGMA_CAP)
    return (0.5 * (mu.square() + (2 * log_std).exp() - 1) - log_std).sum(-1)
