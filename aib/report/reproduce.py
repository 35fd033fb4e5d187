"""How to make a run again: its commands, versions and settings."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from aib.config.settings import Settings
from aib.figures.table import Table
from aib.report.blocks import blocks
from aib.report.gather import RunContent
from aib.system.environment import command_line
from aib.system.files import quoted


def reproduce(content: RunContent) -> list[Markup]:
    """The commands that made a run and its study, with versions, seed and settings."""
    environment, settings, study = content.environment, content.settings, content.study
    measured = study.environment.get("command") if study else None
    commands = [c for c in (environment.get("command"), measured) if c]
    if settings and not environment.get("command"):
        commands.insert(0, training_command(settings))
    commands.append(command_line() or f"aib report {quoted(content.source)}")
    facts = versions(environment)
    facts += [f"seed {settings.seed}"] if settings else []
    found = [blocks.code("\n".join(dict.fromkeys(commands)))]
    if facts:
        found.append(blocks.text(f"Trained with {', '.join(facts)}."))
    if study and study.weights_sha256:
        found.append(blocks.text(f"Weights: SHA-256 `{study.weights_sha256[:16]}…`"))
    return found + ([settings_table("All settings", settings)] if settings else [])


def versions(environment: Mapping[str, Any]) -> list[str]:
    """Versions and hardware, as far as they are known."""
    names = {"python": "Python", "torch": "torch", "aib": "aib", "device": "hardware"}
    return [f"{name} {environment[key]}" for key, name in names.items() if environment.get(key)]


def settings_table(summary: str, settings: Settings) -> Markup:
    """All settings, in a table that opens on a click."""
    rows = tuple((name, str(value)) for name, value in settings.to_dict().items())
    return blocks.details(summary, Table("Settings", ("setting", "value"), rows))


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
