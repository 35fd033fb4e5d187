"""Profiles: where the authors' released code differs from their paper."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from aib.config.validation import Averaging, Modulation, ProfileName, check

Initialisation = Literal["he", "he_fan_out", "xavier"]


@dataclass(frozen=True)
class Profile:
    """What `profile=` decides. A model may still override the modulation.

    The learning rate's schedule is not here but in the presets; what of the released training is
    not reproduced at all is listed in docs/method.md.
    """

    # --- the network
    sigma_kernel: int  # of the convolution from mu_a to sigma_a
    modulation: Modulation
    shallow_unquantised: bool  # vgg_aib at 224: one convolution gives mu_a; with anchors it is four
    initialisation: Mapping[str, Initialisation]  # by backbone; "he" for those not named
    eval_samples: tuple[int, int]  # S x M in evaluation; training takes 1 x 1

    # --- the loss
    exact_kl: bool  # False: the released code takes sigma for the *log* of the std
    averaging: Averaging  # over samples; "probabilities": the loss averages the likelihood
    bits: bool  # cross-entropy and KL are divided by ln 2, the quantiser's two terms are not
    kl_weight: Mapping[tuple[str, int], float]  # by backbone and image size; 1 for those not named

    # --- the optimiser
    nesterov: bool
    decay_all: bool  # weight decay also on norms, biases and anchors


PROFILES: dict[ProfileName, Profile] = {
    "paper": Profile(
        sigma_kernel=1,
        modulation="gate",
        shallow_unquantised=False,
        initialisation={},
        eval_samples=(4, 12),
        exact_kl=True,
        averaging="probabilities",
        bits=False,
        kl_weight={},
        nesterov=True,
        decay_all=False,
    ),
    "released": Profile(
        sigma_kernel=3,
        modulation="residual",
        shallow_unquantised=True,
        initialisation={"vgg": "xavier", "wrn": "he_fan_out"},
        eval_samples=(4, 4),
        exact_kl=False,
        averaging="logits",
        bits=True,
        kl_weight={("vgg", 32): 0.5},
        nesterov=False,
        decay_all=True,
    ),
}


def get_modulation(how: Modulation | None, profile: ProfileName) -> Modulation:
    """The given modulation, or the profile's."""
    check("modulation", how, Modulation | None)
    return how or get_profile(profile).modulation


def get_profile(name: ProfileName) -> Profile:
    """A profile by name."""
    check("profile", name, ProfileName)
    return PROFILES[name]
