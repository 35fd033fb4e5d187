"""The command that repeats a run, whatever was typed and wherever it ran."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aib.configs import PRESETS
from aib.settings import Settings


def train_command(recipe: Mapping[str, Any]) -> str:
    """`aib train` with the preset of these data that is nearest, and what differs from it.

    Presets may change; a recipe does not. So it is compared with what they say now.
    """
    plain = Settings().to_dict()
    wanted = plain | dict(recipe)
    starts = {name: plain | preset.settings.recipe() for name, preset in PRESETS.items()}
    starts = {name: start for name, start in starts.items() if start["data"] == wanted["data"]}
    changes = {
        name: {setting: value for setting, value in wanted.items() if value != start[setting]}
        for name, start in {"": plain, **starts}.items()
    }
    # What no option can say, that a preset's setting is to be none, rules the preset out.
    said = {name: change for name, change in changes.items() if None not in change.values()}
    nearest = min(said, key=lambda name: len(said[name]))
    return " ".join(["aib", "train", *([nearest] if nearest else []), *_words(said[nearest])])


def _words(recipe: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in recipe.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
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
