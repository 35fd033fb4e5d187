"""Shell completion. The shell asks `aib --complete WORDS...` at each TAB: it is never outdated."""

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any, Literal

from aib.config.presets import PRESETS
from aib.config.validation import reject_unknown

# Where there is nothing to propose, the shell proposes files.
SCRIPTS = {
    "bash": """\
_aib() {
    local IFS=$'\\n'
    COMPREPLY=($(aib --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _aib aib""",
    "zsh": """\
_aib() {
    compadd -- ${(f)"$(aib --complete "${(@)words[2,$CURRENT]}" 2>/dev/null)"} || _files
}
compdef _aib aib""",
    "fish": 'complete -c aib -a "(aib --complete (commandline -opc)[2..] (commandline -ct))"',
}


def script(shell: str) -> str:
    """What to add to the shell's start-up file."""
    reject_unknown([shell], SCRIPTS, "no completion for the shell")
    return SCRIPTS[shell]


def complete(words: Sequence[str], commands: Sequence[str]) -> list[str]:
    """What may stand in place of the last word, after those before it."""
    *before, start = words or [""]
    return [word for word in _candidates(before, commands) if word.startswith(start)]


def _candidates(before: list[str], commands: Sequence[str]) -> list[str]:
    if not before:
        return [*commands, "--help", "--version"]
    command, *given = before
    if command not in commands:
        return []
    target = import_module(f"aib.commands.{command}").COMMAND
    if isinstance(target, dict):  # data, bench
        if not given:
            return list(target)
        target, given = target.get(given[0]), given[1:]
        if target is None:
            return []
    options = _options(target)
    if given and options.get(given[-1]) is not None:
        return list(options[given[-1]] or ())
    presets = list(PRESETS) if command in ("train", "sweep") and not given else []
    return [*presets, *options, "--help"]


def _options(target: Callable[..., Any]) -> dict[str, tuple[str, ...] | None]:
    """The options of a function or dataclass, with their choices; None for a flag."""
    found: dict[str, tuple[str, ...] | None] = {}
    hints = typing.get_type_hints(target)
    for one in inspect.signature(target).parameters.values():
        name, kind = one.name.replace("_", "-"), hints[one.name]
        if is_dataclass(kind):
            found |= _options(typing.cast(Any, kind))
        elif kind is bool:
            found[f"--no-{name}" if one.default else f"--{name}"] = None
        elif one.kind is not one.POSITIONAL_ONLY:
            found[f"--{name}"] = _choices(kind)
    return found


def _choices(kind: Any) -> tuple[str, ...]:
    """The strings that an annotation names, also inside a union or a tuple."""
    if typing.get_origin(kind) is Literal:
        return tuple(str(value) for value in typing.get_args(kind))
    if kind is bool:
        return ("True", "False")
    inside = isinstance(kind, types.UnionType) or typing.get_origin(kind) in (typing.Union, tuple)
    return tuple(word for one in typing.get_args(kind) for word in _choices(one)) if inside else ()
