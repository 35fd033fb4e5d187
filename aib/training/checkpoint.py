"""Checkpoint files: written atomically, loaded without running code."""

import pickletools
import re
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import torch

from aib.errors import AibError, first_line
from aib.system.files import write_whole
from aib.system.memory import machine_memory

SCHEMA = 2
# The only classes that the pickle of a checkpoint may name, besides torch's storages.
ALLOWED = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2"}


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a state of tensors and plain values, which can be loaded without trusting the file."""

    def write(partial: Path) -> None:
        with partial.open("wb") as file:  # given a path, torch hides the reason of a failure
            torch.save({"schema": SCHEMA, **state}, file)

    write_whole(path, write)


def require_checkpoint(path: Path) -> None:
    """Raise if there is no checkpoint yet."""
    if not path.is_file():
        raise AibError(
            f"{path.parent} has no {path.name}: there is nothing to resume; start the run again, "
            "in the same folder if you like"
        )


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU; no code in the file is executed."""
    require_checkpoint(path)
    if not is_zipfile(path):  # torch would try its older formats
        raise AibError(f"{path} cannot be read as a checkpoint: it is truncated or not one")
    try:
        _check_content(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the unpickler raises many kinds for a damaged file
        raise AibError(f"{path} cannot be read as a checkpoint: {first_line(error)}") from error
    schema = state.get("schema") if isinstance(state, dict) else None
    if not isinstance(schema, int) or schema != SCHEMA:
        raise AibError(f"{path} is not a checkpoint of this version")
    return state


def _check_content(path: Path) -> None:
    """Check every CRC, and that loading takes no more memory than the size of the file.

    torch.save neither compresses nor stores anything but tensors, while a file that torch.load
    accepts could make it allocate any amount.
    """
    size, memory = path.stat().st_size, machine_memory()
    if memory is not None and size > memory:
        raise ValueError(f"it has {size / 1e9:.1f} GB, and this machine {memory / 1e9:.1f}")
    with ZipFile(path) as archive:
        entries = archive.infolist()
        stored = all(entry.compress_type == ZIP_STORED for entry in entries)
        if not stored or sum(entry.file_size for entry in entries) > size:
            raise ValueError("it is compressed, which a checkpoint never is")
        if damaged := archive.testzip():  # torch.load checks no CRC
            raise ValueError(f"{damaged} is damaged; start a new run in another folder")
        [pickled] = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
        operations = list(pickletools.genops(archive.read(pickled)))
    for operation, name, _ in operations:
        if operation.name in ("GLOBAL", "INST", "STACK_GLOBAL"):  # name: "module name", or None
            storage = re.fullmatch(r"torch \w*Storage", str(name))
            if name not in ALLOWED and not storage:
                raise ValueError(f"it holds something other than tensors and numbers: {name}")
