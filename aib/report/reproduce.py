"""How to reproduce a run: commands, seed, versions, hardware, settings."""

import shlex

from aib.figures.table import Table
from aib.report.blocks import Block, Code, Details, Text
from aib.report.gather import RunContent
from aib.settings import Settings


def reproduce(content: RunContent) -> list[Block]:
    """The blocks of the section."""
    environment, settings, study = content.environment, content.settings, content.study
    measured = study.environment.get("command") if study else None
    commands = [c for c in (environment.get("command"), measured) if c]
    if settings and not environment.get("command"):
        commands.insert(0, training_command(settings))
    commands.append(f"aib report {content.folder}")
    keys = {"python": "Python", "torch": "torch", "aib": "aib", "device": "hardware"}
    facts = [f"{name} {environment[key]}" for key, name in keys.items() if environment.get(key)]
    facts += [f"seed {settings.seed}"] if settings else []
    blocks: list[Block] = [Code("\n".join(dict.fromkeys(commands)))]
    if facts:
        blocks.append(Text(f"Trained with {', '.join(facts)}."))
    if study and study.weights_sha256:
        blocks.append(Text(f"Weights: SHA-256 `{study.weights_sha256[:16]}…`"))
    if settings:
        rows = tuple((k, str(v)) for k, v in settings.to_dict().items())
        blocks.append(Details("All settings", Table("Settings", ("setting", "value"), rows)))
    return blocks


def training_command(settings: Settings) -> str:
    """The command that trains with these settings; defaults are left out."""
    words, defaults = ["aib train"], Settings().to_dict()
    for name, value in settings.to_dict().items():
        if value == defaults[name]:
            continue
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else "--no-" + flag[2:])
        elif isinstance(value, list):
            words += [flag, *map(str, value)]
        else:
            words += [flag, shlex.quote(str(value))]
    return " ".join(words)
