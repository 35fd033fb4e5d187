"""Explain images, and measure how far maps can be trusted: also maps of other methods.

The names of `aib.interpret.api`, imported at first use: `aib explain` does without most of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aib.interpret.api import *  # noqa: F403


def __getattr__(name: str) -> Any:
    api = import_module("aib.interpret.api")
    if name not in {*api.__all__, "__all__"}:
        raise AttributeError(f"module 'aib.interpret' has no attribute {name!r}")
    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("aib.interpret.api").__all__})
