"""What `aib explain` writes beside the explanations: one table, and last of all a manifest."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aib.errors import AibError
from aib.figures.saved import check_target, files_of
from aib.system.files import finite, locked, read_json, sha256, write_csv, write_json

TABLE, MANIFEST = "explanations.csv", "manifest.json"
LOCK = ".explain.lock"  # held while explanations are written
MADE_BY = "aib explain"
BOX = ("left", "top", "right", "bottom")
# Keys of the records, but for the four of the box.
COLUMNS = (
    "image", "prediction", "probability", "entropy_bits", "expected", "expected_probability",
    "threshold", *BOX, "map",
)  # fmt: skip


def check_outputs(folder: Path) -> None:
    """Raise an error where the table or the manifest would overwrite a file of the user's."""
    table, manifest = folder / TABLE, folder / MANIFEST
    check_target(table, _is_table(table))
    check_target(manifest, is_manifest(manifest))


@contextmanager
def replacing(folder: Path) -> Iterator[None]:
    """Remove the manifest of earlier explanations, before the first file changes, and keep other
    calls of `aib explain` from writing to the folder. A kill releases the lock."""
    busy = (
        f"another `aib explain` is writing to {folder}: wait for it, or choose another folder "
        "with --out"
    )
    with locked(folder / LOCK, busy):
        (folder / MANIFEST).unlink(missing_ok=True)
        yield


def write_table(folder: Path, records: Sequence[dict[str, Any]]) -> None:
    """One row per image; empty where there is no value."""
    none = (None,) * 4  # not left out: a record has another `top`, the most probable classes
    rows = [finite(one) | dict(zip(BOX, one["box"] or none, strict=True)) for one in records]
    write_csv(folder / TABLE, COLUMNS, rows)


def write_manifest(folder: Path, names: Sequence[str], facts: dict[str, Any]) -> None:
    """The SHA-256 of every file of these explanations and of the table, and how they were made."""
    files = [path for name in names for path in files_of(folder, name) if path.is_file()]
    checksums = {path.name: sha256(path) for path in (*files, folder / TABLE)}
    write_json(folder / MANIFEST, {"made_by": MADE_BY, **finite(facts), "files": checksums})


def is_manifest(path: Path) -> bool:
    """Whether `write_manifest` wrote this file."""
    try:
        return (read_json(path) or {}).get("made_by") == MADE_BY
    except AibError:
        return False


def _is_table(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(200).startswith(",".join(COLUMNS[:3]).encode())
