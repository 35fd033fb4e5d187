"""Unpacking a tar archive without letting it write anywhere else."""

import tarfile
from collections.abc import Callable
from pathlib import Path

from aib.errors import AibError


def extract(
    archive: Path, target: Path, progress: Callable[[int], None] = lambda done: None
) -> None:
    """Every member of `archive` under `target`; `progress` hears how many bytes each one had.

    Absolute paths, paths that climb out, links that point out and device files stop it: Python's
    `data` filter looks at each member before it is written.
    """
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                tar.extract(member, target, filter="data")
                progress(member.size)
    except tarfile.FilterError as error:
        raise AibError(f"{archive.name} is not safe to unpack: {error}") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise AibError(f"{archive.name} cannot be unpacked: {error}") from error
