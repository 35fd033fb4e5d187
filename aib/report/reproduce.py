"""How to reproduce a run: the commands, the seed, versions, hardware, every setting."""

import shlex
from html import escape

from aib.figures.table import Table
from aib.report.gather import Material
from aib.report.html import paragraph, table_html
from aib.settings import Settings


def reproduce(m: Material) -> list[str]:
    """The section, piece by piece."""
    environment = m.config.get("environment", {})
    result = (m.result or {}).get("environment", {})
    commands = [c for c in (environment.get("command"), result.get("command")) if c]
    if m.settings and not environment.get("command"):
        commands.insert(0, command_of(m.settings))
    commands.append(f"aib report {m.folder}")
    keys = {"python": "Python", "torch": "torch", "aib": "aib", "device": "hardware"}
    facts = [f"{name} {environment[key]}" for key, name in keys.items() if environment.get(key)]
    parts = [f"<pre>{escape(chr(10).join(dict.fromkeys(commands)))}</pre>"]
    if m.settings:
        facts.append(f"seed {m.settings.seed}")
    if facts:
        parts.append(paragraph("Trained with " + ", ".join(facts) + "."))
    if m.result and m.result.get("weights_sha256"):
        parts.append(f"<p>Weights: SHA-256 <code>{m.result['weights_sha256'][:16]}…</code></p>")
    if m.settings:
        rows = tuple((k, str(v)) for k, v in m.settings.to_dict().items())
        inner = table_html(Table("Settings", ("setting", "value"), rows))
        parts.append(f"<details><summary>All settings</summary>{inner}</details>")
    return parts


def command_of(settings: Settings) -> str:
    """The command line that these settings come from, defaults left out."""
    words = ["aib train"]
    defaults = Settings().to_dict()
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
