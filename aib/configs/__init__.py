"""The presets by name."""

from aib.configs.preset import Preset
from aib.configs.presets import PRESETS
from aib.validation import reject_unknown


def get_preset(name: str) -> Preset:
    """A preset by name; the error for an unknown name lists the closest ones."""
    reject_unknown([name], PRESETS, "no preset", "aib train --list")
    return PRESETS[name]


__all__ = ["PRESETS", "Preset", "get_preset"]
