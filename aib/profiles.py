"""Where the authors' released code differs from their paper: every difference that is a knob."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from aib.errors import AibError
from aib.types import ProfileName

Modulation = Literal["gate", "residual"]
Initialisation = Literal["he", "he_fan_out", "xavier"]


@dataclass(frozen=True)
class Profile:
    """The choices that `profile=` makes. A model may still override the modulation.

    The learning rate's schedule is not here but in the presets; what of the released training is
    not reproduced at all is listed in docs/method.md.
    """

    # --- the network
    sigma_kernel: int  # of the convolution from mu_a to sigma_a
    modulation: Modulation
    shallow_unquantised: bool  # vgg_aib at 224: one convolution gives mu_a; with anchors it is four
    initialisation: Mapping[str, Initialisation]  # by backbone; "he" for those not named
    eval_samples: tuple[int, int]  # S x M in evaluation; training draws 1 x 1

    # --- the loss
    exact_kl: bool  # False: the released code takes sigma for the *log* of the deviation
    average_logits: bool  # False: the likelihood is averaged over samples, E[log q(y|z)]
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
        average_logits=False,
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
        average_logits=True,
        bits=True,
        kl_weight={("vgg", 32): 0.5},
        nesterov=False,
        decay_all=True,
    ),
}


def get_modulation(how: str | None, profile: str) -> Modulation:
    """The modulation asked for, or the profile's."""
    if how is None:
        return get_profile(profile).modulation
    if how not in get_args(Modulation):
        raise AibError(f"modulation must be 'gate' or 'residual', not {how!r}")
    return how  # type: ignore[return-value]


def get_profile(name: str) -> Profile:
    """Look a profile up by name."""
    if name not in get_args(ProfileName):
        raise AibError(f"profile must be one of {', '.join(PROFILES)}, not {name!r}")
    return PROFILES[name]  # type: ignore[index]
