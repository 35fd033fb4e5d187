"""Where the authors' released code differs from their paper: one row of knobs for each."""

from dataclasses import dataclass
from typing import Literal, get_args

from aib.errors import AibError
from aib.types import ProfileName

Modulation = Literal["gate", "residual"]


@dataclass(frozen=True)
class Profile:
    """The choices that `profile=` makes. A model may still override the modulation."""

    sigma_kernel: int  # of the convolution from mu_a to sigma_a
    modulation: Modulation
    eval_samples: tuple[int, int]  # S x M in evaluation; training draws 1 x 1
    exact_kl: bool  # False: the released code takes sigma for the *log* of the deviation
    average_logits: bool  # False: the likelihood is averaged over samples, E[log q(y|z)]


PROFILES: dict[ProfileName, Profile] = {
    "paper": Profile(1, "gate", (4, 12), exact_kl=True, average_logits=False),
    "released": Profile(3, "residual", (4, 4), exact_kl=False, average_logits=True),
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
