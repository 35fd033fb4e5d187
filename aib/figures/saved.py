"""An explanation's files: NAME.png, NAME.npy, NAME.mask.png, NAME.json and, for an expected class,
NAME.classes.npy. Only our own are replaced.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from aib.errors import AibError
from aib.figures.overlay import Array
from aib.figures.picture import is_figure, save_image
from aib.system.files import finite, read_json, sha256, write_json, write_whole

LONGEST = 200  # bytes: with number, suffix and that of `write_whole` a file name may have 255


def distinct_names(names: Iterable[str]) -> list[str]:
    """The names in order; one whose files are taken gets a number: cat, cat-2, cat-3.

    They are cut to `LONGEST` bytes.
    """
    taken, found = {"manifest"}, []
    for name in names:
        while len(os.fsencode(name)) > LONGEST:
            name = name[:-1]
        candidate, number = name, 2
        while taken & (stems := {candidate, f"{candidate}.mask", f"{candidate}.classes"}):
            candidate, number = f"{name}-{number}", number + 1
        taken |= stems
        found.append(candidate)
    return found


def files_of(folder: Path, name: str) -> list[Path]:
    """The files that one explanation may have."""
    kinds = (".png", ".npy", ".mask.png", ".classes.npy", ".json")
    return [folder / f"{name}{kind}" for kind in kinds]


def check_targets(folder: Path, names: Sequence[str]) -> None:
    """Raise an error where a file would be overwritten that `save_files` did not write."""
    for name in names:
        *others, json = files_of(folder, name)
        record = _record(json)
        checksums = (record.get("map_sha256"), record.get("class_maps_sha256"))
        for path in others:
            is_map = path.suffix == ".npy" and path.is_file() and sha256(path) in checksums
            check_target(path, is_map or is_figure(path))
        check_target(json, record.get("picture") == f"{name}.png")


def check_target(path: Path, ours: bool) -> None:
    """Raise an error where something lies at `path` that is not ours."""
    if os.path.lexists(path) and not ours:
        raise AibError(
            f"{path} would be overwritten, and aib did not make it: choose another output path"
        )


def save_files(
    folder: Path,
    name: str,
    drawn: Image.Image,
    map: Tensor,
    mask: Array,
    class_maps: Tensor | None,
    record: dict[str, Any],
) -> Path:
    """Write picture, raw map [h,w], mask [H,W], class maps [2,h,w] and record, in this order.

    The targets have been checked. Returns the picture's path.
    """
    picture, raw, cut, raw_classes, json = files_of(folder, name)
    save_image(drawn, picture)
    _save_array(raw, map)
    save_image(Image.fromarray(mask.astype(np.uint8) * 255), cut)
    files = {"picture": picture.name, "map": raw.name, "map_sha256": sha256(raw), "mask": cut.name}
    if class_maps is not None:
        _save_array(raw_classes, class_maps)
        files |= {"class_maps": raw_classes.name, "class_maps_sha256": sha256(raw_classes)}
    else:
        raw_classes.unlink(missing_ok=True)  # of an earlier explanation
    write_json(json, finite(record | files))
    return picture


def _save_array(path: Path, values: Tensor) -> None:
    array = np.ascontiguousarray(values.detach().float().cpu().numpy())

    def write(partial: Path) -> None:
        with partial.open("wb") as file:  # given a name, numpy would add .npy to it
            np.save(file, array)

    write_whole(path, write)


def _record(path: Path) -> dict[str, Any]:
    """The record in a JSON file; empty where it is none of ours."""
    try:
        record = read_json(path) or {}
    except AibError:
        return {}
    return record if "image_sha256" in record else {}
