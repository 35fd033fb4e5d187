"""How every command reads its options: from the function's signature and docstring."""

from collections.abc import Callable, Sequence
from typing import Any

import tyro


def parse(command: Callable[..., Any], argv: Sequence[str], prog: str) -> Any:
    """Call `command` with the options of `argv`; --help and mistakes end in SystemExit."""
    return tyro.cli(command, args=list(argv), prog=prog, config=(tyro.conf.FlagCreatePairsOff,))
