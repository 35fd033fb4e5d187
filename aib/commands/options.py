"""Parse the options of a command from a signature or dataclass and its docstrings."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from aib.errors import AibError


def parse(command: Callable[..., Any], argv: Sequence[str], prog: str, default: Any = None) -> Any:
    """Call `command` with the options of `argv`; --help and errors raise SystemExit."""
    extra = {} if default is None else {"default": default}
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    return tyro.cli(command, args=list(argv), prog=prog, config=config, **extra)


def parse_samples(text: str) -> tuple[int, int]:
    """Convert '4x12' to (4, 12)."""
    match = re.fullmatch("([1-9][0-9]{0,4})[xX]([1-9][0-9]{0,4})", text)
    if match is None:
        raise AibError(f"samples are written SxM, such as 4x12, not {text!r}")
    return int(match[1]), int(match[2])
