"""The options of `attach`, and which of them a kind of model has."""

from dataclasses import asdict
from typing import Any

from aib.config.options import ModelOptions
from aib.config.validation import check, reject_unknown
from aib.errors import AibError

# The options of `create_model` that apply to any network, without and with masked=True.
OPTIONS = {
    False: ("latent_dim", "modulation", "profile"),
    True: ("latent_dim", "area", "noise_std", "stretch", "sample_map", "profile"),
}
READING = ("layout", "prefix_tokens", "grid")  # of the features, with masked=True


def options_for(name: str, masked: bool, options: ModelOptions) -> dict[str, Any]:
    """The arguments of `attach` among the options; another one that was changed is an error."""
    default = asdict(ModelOptions())
    changed = {key: value for key, value in asdict(options).items() if value != default[key]}
    quantizer = changed.pop("num_anchors", None)
    check_options(masked, list(changed), name)
    return {"quantizer": quantizer, **changed}


def check_options(masked: bool, given: list[str], name: str = "attach") -> None:
    """Raise an error for an unknown option, and for one of the other kind of model."""
    check("masked", masked, bool)
    modulating, masking = OPTIONS[False], (*OPTIONS[True], *READING)
    reject_unknown(given, dict.fromkeys((*modulating, *masking)), f"{name} has no option")
    for option in given:
        if option not in (masking if masked else modulating):
            kind = "attention that modulates features" if masked else "masked models"
            raise AibError(
                f"{option} is for {kind}: leave it out{'' if masked else ', or add masked=True'}"
            )


def check_evaluator_options(masked: bool, quantizer: int | None, options: ModelOptions) -> None:
    """Raise an error for what changes nothing in an evaluator, which has no map."""
    if not masked:
        raise AibError("an evaluator is a masked model without a map: add masked=True")
    unused = [name for name in options.changed("mask") if name != "noise_std"]
    for name in [*unused, *(["quantizer"] if quantizer is not None else [])]:
        raise AibError(f"an evaluator has no map: {name} changes nothing")
