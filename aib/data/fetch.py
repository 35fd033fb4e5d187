"""Download official files: check, unpack in a temporary folder, move into place when complete."""

import contextlib
import logging
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pooch

from aib.data.files import locate, root_folder
from aib.data.specs import Archive, Spec
from aib.errors import AibError
from aib.system.files import locked

RETRIES = 2


def fetch(spec: Spec, root: str | Path | None = None, *, extra: bool = False) -> Path:
    """Download a data set to `root` unless it is there, and return its folder.

    extra: also download the files of the split `extra`.
    """
    if not spec.archives:
        raise AibError(f"{spec.name} is generated, so there is nothing to fetch")
    base = root_folder(root)
    folder = locate(spec, base) or base / spec.folders[0]
    # What the folder has once it has an archive: a part, a file, or itself for all of it.
    holds = {a: folder / (a.part if a.is_tar else a.file_name) for a in spec.archives}
    missing = [
        a for a, held in holds.items() if not held.exists() and (a.split != "extra" or extra)
    ]
    if not missing:
        return folder
    with _temporary_folder(base, spec.name) as temporary:
        for archive in missing:
            path = _download(archive, temporary)
            if archive.is_tar:
                extract(path, temporary)
                path = temporary / (archive.part or spec.folders[0])
                if not path.is_dir():
                    raise AibError(f"{archive.file_name} does not contain {path.name}/")
            holds[archive].parent.mkdir(parents=True, exist_ok=True)
            path.replace(holds[archive])
    return folder


def extract(archive: Path, target: Path) -> None:
    """Unpack a tar archive; the filter stops at paths and links out of `target`, and at devices."""
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data")
    except tarfile.FilterError as error:
        raise AibError(f"{archive.name} is not safe to unpack: {error}") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise AibError(f"{archive.name} cannot be unpacked: {error}") from error


def _download(archive: Archive, folder: Path) -> Path:
    """Download one file; pooch checks its hash and retries after a lost connection."""
    pooch.get_logger().setLevel(logging.WARNING)
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30)
    store = pooch.create(
        path=folder,
        base_url="",
        registry={archive.file_name: f"md5:{archive.md5}"},
        urls={archive.file_name: archive.url},
        retry_if_failed=RETRIES,
    )
    try:
        return Path(store.fetch(archive.file_name, downloader=downloader))
    except ValueError as error:  # what pooch raises for a wrong checksum
        raise AibError(f"{archive.url} is not the published file, its checksum differs") from error
    except Exception as error:  # requests and urllib3 raise many kinds
        raise AibError(
            f"{archive.url} could not be fetched ({type(error).__name__}): try again later, "
            f"or put the files in a folder yourself and name it with --root"
        ) from error


@contextlib.contextmanager
def _temporary_folder(base: Path, name: str) -> Iterator[Path]:
    """A hidden folder under `base`, on the same file system, so that the last step is a rename.

    It is removed at the end; what a killed process left is removed by the next fetch. The lock
    prevents two fetches of one set at the same time, and ends with its process.
    """
    prefix = f".fetch-{name}-"
    busy = f"another process is fetching {name} here: wait for it"
    with locked(base / f".fetch-{name}.lock", busy):
        for stale in base.glob(f"{prefix}*/"):
            shutil.rmtree(stale, ignore_errors=True)
        with TemporaryDirectory("", prefix, base, ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
