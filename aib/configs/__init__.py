"""The presets by name, one file per data set."""

from aib.configs import cifar10, cifar100, cub200, pets, shapes, svhn
from aib.configs.preset import Preset
from aib.validation import reject_unknown

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for module in (shapes, cifar10, cifar100, svhn, cub200, pets)
    for preset in module.PRESETS
}


def get_preset(name: str) -> Preset:
    """A preset by name; the error for an unknown name lists the closest ones."""
    reject_unknown([name], PRESETS, "no preset", "aib train --list")
    return PRESETS[name]


__all__ = ["PRESETS", "Preset", "get_preset"]
