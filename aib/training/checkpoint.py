"""What it takes to go on after a kill: written whole or not at all, loaded without running code."""

import pickletools
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import torch

from aib.errors import AibError
from aib.files import write_whole
from aib.memory import machine_memory

SCHEMA = 2
# What the pickle of a checkpoint may name, besides torch's storages.
KNOWN = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2"}


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Tensors and plain values only, so that loading need not trust the file."""

    def write(partial: Path) -> None:
        with partial.open("wb") as file:  # given a name, torch hides why it could not write
            torch.save({"schema": SCHEMA, **state}, file)

    write_whole(path, write)


def require_checkpoint(path: Path) -> None:
    """One clear sentence if there is none yet."""
    if not path.is_file():
        raise AibError(
            f"{path.parent} has no {path.name}: there is nothing to resume; start the run again "
            f"with --out {path.parent}"
        )


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Everything to the CPU first; no code in the file is executed."""
    require_checkpoint(path)
    if not is_zipfile(path):  # torch would take it for one of its older formats, and unpack it
        raise AibError(f"{path} cannot be read as a checkpoint: it is cut off, or something else")
    try:
        _check_content(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the unpickler raises many kinds for a damaged file
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise AibError(f"{path} cannot be read as a checkpoint: {reason}") from error
    schema = state.get("schema") if isinstance(state, dict) else None
    if not isinstance(schema, int) or schema != SCHEMA:
        raise AibError(f"{path} is not a checkpoint of this version")
    return state


def _check_content(path: Path) -> None:
    """Refuse what takes more memory than the file is long: torch neither compresses nor asks for
    anything but tensors, and what torch.load lets pass can ask for any amount."""
    size, there = path.stat().st_size, machine_memory()
    if there is not None and size > there:
        raise ValueError(f"it has {size / 1e9:.1f} GB, and this machine {there / 1e9:.1f}")
    with ZipFile(path) as archive:
        entries = archive.infolist()
        stored = all(entry.compress_type == ZIP_STORED for entry in entries)
        if not stored or sum(entry.file_size for entry in entries) > size:
            raise ValueError("it is compressed, which a checkpoint never is")
        [pickled] = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
        operations = list(pickletools.genops(archive.read(pickled)))
    for operation, name, _ in operations:
        if operation.name in ("GLOBAL", "INST", "STACK_GLOBAL") and not _is_known(name):
            raise ValueError(f"it holds something else than tensors and numbers: {name}")


def _is_known(name: Any) -> bool:
    """Names are written as "module name"; None where the pickle puts one together itself."""
    module, _, last = str(name).partition(" ")
    return name in KNOWN or (module == "torch" and last.endswith("Storage"))
