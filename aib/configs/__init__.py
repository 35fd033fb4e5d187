"""The presets, by name. One file a data set."""

import difflib

from aib.configs import cifar10, cifar100, cub200, shapes, svhn
from aib.configs.preset import Preset
from aib.errors import AibError

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for module in (shapes, cifar10, cifar100, svhn, cub200)
    for preset in module.PRESETS
}


def get_preset(name: str) -> Preset:
    """A preset by name; an unknown one is answered with the closest."""
    if name not in PRESETS:
        close = difflib.get_close_matches(name, PRESETS, n=3) or list(PRESETS)
        raise AibError(f"no preset {name!r}; did you mean {', '.join(close)}?")
    return PRESETS[name]


__all__ = ["PRESETS", "Preset", "get_preset"]
