"""The command that repeats a run, without the folders of the machine it ran on."""

import shlex
from collections.abc import Mapping
from typing import Any

from aib.config.presets import PRESETS
from aib.config.settings import Settings
from aib.report.reproduce import option_words
from aib.system.files import without_folders


def train_command(recipe: Mapping[str, Any]) -> str:
    """Return `aib train` with the nearest preset of this data set, and the options that differ.

    Presets may change and recipes do not, so the recipe is compared with the presets of today.
    """
    plain = Settings().to_dict()
    wanted = plain | dict(recipe)
    starts = {name: {**plain, **preset.recipe} for name, preset in PRESETS.items()}
    starts = {name: start for name, start in starts.items() if start["data"] == wanted["data"]}
    changes = {
        name: {setting: value for setting, value in wanted.items() if value != start[setting]}
        for name, start in {"": plain, **starts}.items()
    }
    # No option can set a preset's setting to None: such presets are ruled out.
    possible = {name: change for name, change in changes.items() if None not in change.values()}
    nearest = min(possible, key=lambda name: len(possible[name]))
    words = [nearest] if nearest else []
    return " ".join(["aib", "train", *words, *option_words(possible[nearest])])


def portable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return versions, hardware and the typed command, without folders of the machine."""
    command = facts.get("command")
    if command is None:
        return dict(facts)
    words = [without_folders(word) for word in shlex.split(command)]
    return dict(facts) | {"command": shlex.join(words)}
