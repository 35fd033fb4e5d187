"""Finding a set's official files on disk, and reading fixed-size records from them."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aib.data.specs import Spec
from aib.errors import AibError


def cache_folder() -> Path:
    """Where `fetch` puts data sets: $AIB_DATA, or the user's cache folder."""
    if "AIB_DATA" in os.environ:
        return Path(os.environ["AIB_DATA"]).expanduser()
    import pooch  # here, because reading files by --root does not need it

    return Path(pooch.os_cache("aib")) / "data"


def root_folder(root: str | Path | None) -> Path:
    return cache_folder() if root is None else Path(root).expanduser()


def locate(spec: Spec, root: str | Path | None) -> Path | None:
    """The set's folder under `root`, which may also be that folder itself; None if not there."""
    base = root_folder(root)
    places = [base / folder for folder in spec.folders]
    places += [base / spec.name / folder for folder in spec.folders]
    found = next((place for place in places if place.is_dir()), None)
    if found is None and (base.name in spec.folders or _has_loose_file(spec, base)):
        found = base if base.is_dir() else None
    return found


def _has_loose_file(spec: Spec, base: Path) -> bool:
    """Some sets are a few files without a folder of their own."""
    return any((base / a.file_name).is_file() for a in spec.archives if not a.folder)


def require(spec: Spec, root: str | Path | None) -> Path:
    """`locate`, or one sentence that says what to do."""
    folder = locate(spec, root)
    if folder is None:
        raise AibError(
            f"{spec.name} is not under {root_folder(root)} (looked for "
            f"{' or '.join(spec.folders)}): get it with `aib data fetch {spec.name}`, or say "
            f"where it is with --root"
        )
    return folder


def read_records(path: Path, record: int) -> NDArray[np.uint8]:
    """A file of fixed-size byte records, [N,record]."""
    if not path.is_file():
        raise AibError(f"{path} is missing: the set is incomplete, fetch it again")
    size = path.stat().st_size
    if size == 0 or size % record:
        raise AibError(
            f"{path} has {size:,} bytes, not a multiple of {record:,}: truncated, fetch it again"
        )
    return np.fromfile(path, np.uint8).reshape(-1, record)


def check_count(spec: Spec, split: str, count: int, partial: bool) -> None:
    """Refuse a split of another size than the official one, unless told to accept it."""
    expected = spec.sizes[split]
    if count != expected and not partial:
        raise AibError(
            f"{spec.name} {split} has {count:,} images here and {expected:,} officially; "
            f"write {spec.name}:partial to use what is there"
        )


def check_labels(path: Path, labels: NDArray[np.integer], num_classes: int) -> None:
    if labels.min() < 0 or labels.max() >= num_classes:
        raise AibError(
            f"{path} has labels from {labels.min()} to {labels.max()}, expected 0 to "
            f"{num_classes - 1}: it is not the official file"
        )
