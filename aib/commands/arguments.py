"""What commands share: options from a signature or dataclass, presets, tables, JSON."""

import json
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import tyro

from aib.config.validation import reject_unknown
from aib.errors import AibError
from aib.figures.table import Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

CONFIG = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)


def run_command(command: str, argv: Sequence[str]) -> None:
    """Run a command with these words: its module's `main`, or else its COMMAND.

    --help and errors raise SystemExit. An empty string is an error: as a path it would be the
    current folder.
    """
    for before, word in pairwise([command, *argv]):
        if not word or re.fullmatch("--[a-z-]+=", word):
            raise AibError(f"the value after {word.rstrip('=') or before} is an empty string")
    module, prog = import_module(f"aib.commands.{command}"), f"aib {command}"
    config = (*CONFIG, tyro.conf.DisallowNone)
    if hasattr(module, "main"):
        module.main(list(argv))
    elif isinstance(module.COMMAND, dict):
        if argv and not argv[0].startswith("-"):
            reject_unknown(argv[:1], module.COMMAND, "no command")
        commands = {name: _without_hints(one) for name, one in module.COMMAND.items()}
        tyro.extras.subcommand_cli_from_dict(
            commands, args=list(argv), prog=prog, description=module.__doc__, config=config
        )
    else:
        tyro.cli(_without_hints(module.COMMAND), args=list(argv), prog=prog, config=config)


def _without_hints(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose help prints no empty defaults, such as None: its texts explain them."""
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        if parameter.default in (None, "", (), parameter.empty) or parameter.default is False:
            hints[name] = Annotated[hints[name], tyro.conf.arg(help_behavior_hint="")]
    command.__annotations__ = hints
    return command


def parse_samples(text: str) -> tuple[int, int]:
    """Convert '4x12' to (4, 12)."""
    match = re.fullmatch("([1-9][0-9]{0,4})[xX]([1-9][0-9]{0,4})", text)
    if match is None:
        raise AibError(f"samples are written SxM, such as 4x12, not {text!r}")
    return int(match[1]), int(match[2])


def one_run(folder: Path | None, run: Path | None) -> Path | None:
    """The run that a command names by its position or by --run; None without either."""
    if folder is not None and run is not None:
        raise AibError(f"{folder} and --run {run} are two runs, and this command takes one")
    return folder or run


def wide_console() -> "Console":
    """A console for tables. A pipe's 80 columns would break every cell.

    Text is printed as it is: rich would take aib[onnx] for markup and folder:cat:... for an emoji.
    """
    from rich.console import Console

    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 200
    return console


def rich_table(table: Table) -> "RichTable":
    """A table for the terminal."""
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(title=table.title)
    for i, name in enumerate(table.head):
        made.add_column(name, justify="left" if i == 0 or name in ("run", "model") else "right")
    for row in table.rows:
        made.add_row(*map(Text, row))  # a run's name may hold what rich takes for markup
    return made


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
