"""What it takes to go on after a kill: written whole or not at all, loaded without running code."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch

from aib.errors import AibError

SCHEMA = 1


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write beside `path`, flush, rename: a reader, or a crash, meets the old or the new file."""
    if not path.name:
        raise AibError(f"'{path}' does not name a file to write")
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as RuntimeError
        partial.unlink(missing_ok=True)
        kept = "; the one written before is untouched" if path.exists() else ""
        reason = os.strerror(error.errno or errno.EIO) if isinstance(error, OSError) else str(error)
        raise AibError(f"{path} could not be written: {reason.splitlines()[0]}{kept}") from error


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Tensors and plain values only, so that loading need not trust the file."""
    write_whole(path, lambda partial: torch.save({"schema": SCHEMA, **state}, partial))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Everything to the CPU first; no code in the file is executed."""
    if not path.is_file():
        raise AibError(f"{path.parent} has no {path.name}: there is nothing to resume")
    if not is_zipfile(path):  # torch would take it for one of its older formats, and unpack it
        raise AibError(f"{path} cannot be read as a checkpoint: it is cut off, or something else")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the unpickler raises many kinds for a damaged file
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise AibError(f"{path} cannot be read as a checkpoint: {reason}") from error
    schema = state.get("schema") if isinstance(state, dict) else None
    if not isinstance(schema, int) or schema != SCHEMA:
        raise AibError(f"{path} is not a checkpoint of this version")
    return state
