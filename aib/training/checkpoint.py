"""Checkpoint files: written atomically, loaded without running code."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch

from aib.errors import AibError, first_line
from aib.system.files import write_whole

SCHEMA = 3


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a state of tensors and plain values, which can be loaded without trusting the file."""

    def write(partial: Path) -> None:
        with partial.open("wb") as file:  # given a path, torch hides the reason of a failure
            torch.save({"schema": SCHEMA, **state}, file)

    write_whole(path, write)


def require_checkpoint(path: Path) -> None:
    """Raise if there is no checkpoint yet."""
    if not path.is_file():
        raise AibError(f"{path.parent} has no {path.name}: there is nothing to resume")


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU; no code in the file is executed."""
    require_checkpoint(path)
    try:
        with ZipFile(path) as archive:  # torch.load checks no CRC
            if damaged := archive.testzip():
                raise ValueError(f"{damaged} is damaged")
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state["schema"] != SCHEMA:
            raise ValueError("it is of another version")
    except Exception as error:  # the unpickler raises many kinds for a damaged file
        why = f"cannot be read as a checkpoint ({first_line(error)})"
        raise AibError(f"{path} {why}: start a new run in another folder") from error
    return dict(state)
