"""Find the official files of a data set on disk, and read fixed-size records from them."""

import os
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aib.data.specs import Spec
from aib.errors import AibError, AibWarning


def root_folder(root: str | Path | None) -> Path:
    """The folder of the data sets: `root`, or $AIB_DATA, or the user's cache folder."""
    from pooch import os_cache  # only here: it takes long to import

    base = root or os.environ.get("AIB_DATA") or os_cache("aib") / "data"
    return Path(base).expanduser()


def locate(spec: Spec, root: str | Path | None) -> Path | None:
    """The folder of a data set under `root`, or `root` itself; None if it is not there."""
    base = root_folder(root)
    candidates = [above / folder for folder in spec.folders for above in (base, base / spec.name)]
    candidates += [base] if base.name in spec.folders else []
    return next((folder for folder in candidates if folder.is_dir()), None)


def require(spec: Spec, root: str | Path | None) -> Path:
    """The folder of a data set; an error says how to get it."""
    folder = locate(spec, root)
    if folder is None:
        raise AibError(
            f"{spec.name} is not under {root_folder(root)}: get it with `aib data fetch "
            f"{spec.name}`, or name its folder with --root"
        )
    return folder


def require_file(path: Path) -> Path:
    """The path of a file; an error if it is missing."""
    if not path.is_file():
        raise AibError(f"{path} is missing: the set is incomplete, fetch it again")
    return path


def read_records(path: Path, record: int) -> NDArray[np.uint8]:
    """Read a file of fixed-size byte records, [N,record]."""
    size = require_file(path).stat().st_size
    if size == 0 or size % record:
        raise AibError(
            f"{path} has {size:,} bytes, not a multiple of {record:,}: truncated, fetch it again"
        )
    return np.fromfile(path, np.uint8).reshape(-1, record)


def read_table(path: Path) -> dict[str, str]:
    """Read the lines `id value...` of an official text file."""
    lines = require_file(path).read_text(encoding="utf-8").splitlines()
    rows = [line.split(maxsplit=1) for line in lines if line.strip()]
    if not rows or any(len(row) != 2 for row in rows):
        raise AibError(f"{path} is not a table of 'id value' lines: fetch it again")
    return {row[0]: row[1].strip() for row in rows}


def check_count(spec: Spec, split: str, count: int) -> None:
    """Warn if a split does not have its official size."""
    if count != spec.sizes[split]:
        message = f"{spec.name} {split} has {count:,} of its {spec.sizes[split]:,} official images"
        warnings.warn(message, AibWarning, stacklevel=3)
