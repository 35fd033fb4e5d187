"""The command that repeats a run, whatever was typed and wherever it ran."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aib.configs import PRESETS


def train_command(recipe: Mapping[str, Any]) -> str:
    """`aib train` with a preset that is this recipe but for the seed, or with all its settings.

    Presets may change; a recipe does not. So a preset is only named while it says the same.
    """
    for name, preset in PRESETS.items():
        if preset.settings.recipe() == {k: v for k, v in recipe.items() if k != "seed"}:
            return " ".join(["aib", "train", name, *_words({"seed": recipe.get("seed", 0)})])
    return " ".join(["aib", "train", *_words(recipe)])


def _words(recipe: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in recipe.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif (name, value) != ("seed", 0):
            values = value if isinstance(value, list | tuple) else [value]
            words += [f"--{option}", *(shlex.quote(str(v)) for v in values)]
    return words


def portable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Versions and hardware, with the command as typed but for folders of the machine it ran on."""
    command = facts.get("command")
    if command is None:
        return dict(facts)
    words = [without_folders(word) for word in shlex.split(command)]
    return dict(facts) | {"command": shlex.join(words)}


def without_folders(text: str) -> str:
    """Absolute paths cut to their last name, also behind `=` and `folder:`."""
    return re.sub(r"(^|=|folder:)(/[^:]*)", lambda m: m[1] + Path(m[2]).name, text)
