"""An explanation's three files: NAME.png, NAME.npy and NAME.json. Only our own are replaced."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from aib.errors import AibError
from aib.figures.picture import Array, is_figure, save_figure
from aib.files import finite, read_json, sha256, write_json, write_whole


def distinct_names(names: Iterable[str]) -> list[str]:
    """The names in order; one that is taken gets a number: cat, cat-2, cat-3."""
    taken: dict[str, None] = {}
    for name in names:
        candidate, number = name, 2
        while candidate in taken:
            candidate, number = f"{name}-{number}", number + 1
        taken[candidate] = None
    return list(taken)


def check_targets(folder: Path, names: Sequence[str]) -> None:
    """Raise an error where a file would be overwritten that `save_files` did not write."""
    for name in names:
        png, npy, json = (folder / f"{name}.{kind}" for kind in ("png", "npy", "json"))
        for path, ours in ((png, is_figure), (npy, _is_map), (json, _is_record)):
            if os.path.lexists(path) and not ours(path):
                raise AibError(
                    f"{path} would be overwritten, and it is not the file of an earlier "
                    "explanation; choose another folder"
                )


def save_files(folder: Path, name: str, figure: Any, map: Tensor, record: dict[str, Any]) -> Path:
    """Write picture, raw map [h,w] and record; return the picture's path."""
    values = np.ascontiguousarray(map.detach().float().cpu().numpy())
    picture, raw = folder / f"{name}.png", folder / f"{name}.npy"
    save_figure(figure, picture)

    def write(partial: Path) -> None:
        with partial.open("wb") as file:  # given a name, numpy would add .npy to it
            np.save(file, values)

    write_whole(raw, write)
    files = {"picture": picture.name, "map": raw.name, "map_sha256": sha256(raw)}
    write_json(folder / f"{name}.json", finite(record | files))
    return picture


def digest(image: Array) -> str:
    """SHA-256 of an image's pixels, uint8 [H,W,3]."""
    return hashlib.sha256(image.tobytes()).hexdigest()


def _is_record(path: Path) -> bool:
    return _record(path).get("picture") == path.with_suffix(".png").name


def _is_map(path: Path) -> bool:
    """The record beside it holds its checksum."""
    return path.is_file() and _record(path.with_suffix(".json")).get("map_sha256") == sha256(path)


def _record(path: Path) -> dict[str, Any]:
    """The record in a JSON file; empty where it is none of ours."""
    try:
        record = read_json(path) or {}
    except AibError:
        return {}
    return record if "image_sha256" in record else {}
