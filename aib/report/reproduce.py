"""How to make a run again: its commands, versions and settings."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from aib.config.settings import Settings
from aib.figures.table import Table
from aib.report.blocks import blocks
from aib.report.gather import RunContent
from aib.system.files import quoted

VERSIONS = {"python": "Python", "torch": "torch", "aib": "aib", "device": "hardware"}


def reproduce(content: RunContent) -> list[Markup]:
    """The commands that made a run and its study, with versions, seed and settings."""
    environment, settings, study = content.environment, content.settings, content.study
    trained = environment.get("command") or (settings and training_command(settings))
    commands = [trained, study.environment.get("command") if study else None]
    facts = [f"{name} {environment[key]}" for key, name in VERSIONS.items() if environment.get(key)]
    facts += [f"seed {settings.seed}"] if settings else []
    shown = [blocks.code("\n".join(command for command in commands if command))]
    if facts:
        shown.append(blocks.text(f"Trained with {', '.join(facts)}."))
    if study and study.weights_sha256:
        shown.append(blocks.text(f"Weights: SHA-256 `{study.weights_sha256[:16]}…`"))
    if settings:
        rows = tuple((name, str(value)) for name, value in settings.to_dict().items())
        table = Table("Settings", ("setting", "value"), rows)
        shown.append(blocks.details("All settings", table))
    return shown


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
