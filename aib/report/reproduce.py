"""The command that trains with given settings."""

from collections.abc import Mapping
from typing import Any

from aib.config.settings import Settings
from aib.system.files import quoted


def training_command(settings: Settings) -> str:
    """The command that trains with these settings; defaults are left out."""
    defaults = Settings().to_dict()
    changed = {k: v for k, v in settings.to_dict().items() if v != defaults[k]}
    return " ".join(["aib train", *option_words(changed)])


def option_words(settings: Mapping[str, Any]) -> list[str]:
    """Settings as options of `aib train`."""
    words: list[str] = []
    for name, value in settings.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            values = value if isinstance(value, list | tuple) else [value]
            words += [f"--{option}", *map(quoted, values)]
    return words
