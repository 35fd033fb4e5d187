"""Download official files: check, unpack in a temporary folder, move into place when complete."""

import contextlib
import logging
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pooch
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from aib.data.files import locate, root_folder
from aib.data.specs import Archive, Spec
from aib.errors import AibError

RETRIES = 2


def fetch(spec: Spec, root: str | Path | None = None, *, extra: bool = False) -> Path:
    """Download a data set to `root` unless it is there, and return its folder.

    extra: also download the files of the split `extra`.
    """
    if not spec.archives:
        raise AibError(f"{spec.name} is generated, so there is nothing to fetch")
    base = root_folder(root)
    wanted = [a for a in spec.archives if a.split != "extra" or extra]
    if not any(a.folder for a in wanted):
        return _fetch_files(spec, wanted, base)
    there = locate(spec, base)
    if there is not None:
        return there
    with _temporary_folder(base, spec.name) as temporary, _progress() as progress:
        unpacked = _unpack(wanted[0], temporary, progress)
        target = base / unpacked.name
        try:
            return unpacked.rename(target)
        except OSError as error:
            raise AibError(f"{target} cannot be written: {error.strerror}") from error


def _fetch_files(spec: Spec, files: list[Archive], base: Path) -> Path:
    """Download the missing files of a set that is a few single files."""
    folder = locate(spec, base) or base / spec.folders[0]
    missing = [file for file in files if not (folder / file.file_name).is_file()]
    if missing:
        with _temporary_folder(base, spec.name) as temporary, _progress() as progress:
            for file in missing:
                path = _download(file, temporary, progress)
                folder.mkdir(exist_ok=True)
                path.replace(folder / file.file_name)
    return folder


def _unpack(archive: Archive, temporary: Path, progress: Progress) -> Path:
    """Download and unpack an archive; the folder that it contains."""
    path = _download(archive, temporary, progress)
    task = progress.add_task(f"unpacking {archive.file_name}", total=None)
    extract(path, temporary, lambda size: progress.advance(task, size))
    folder = temporary / archive.folder
    if not folder.is_dir():
        raise AibError(f"{archive.file_name} does not contain {archive.folder}/")
    return folder


def extract(archive: Path, target: Path, progress: Callable[[int], None]) -> None:
    """Unpack a tar archive; `progress` gets the size of each member.

    Python's `data` filter stops at absolute paths, paths and links that lead outside of `target`,
    and device files.
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


def _download(archive: Archive, folder: Path, progress: Progress) -> Path:
    """Download one file; pooch checks its hash and retries after a lost connection."""
    pooch.get_logger().setLevel(logging.WARNING)
    downloader = pooch.HTTPDownloader(progressbar=_Bar(progress, archive.file_name), timeout=30)
    store = pooch.create(
        path=folder,
        base_url="",
        registry={archive.file_name: archive.checksum},
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
    created = not base.exists()
    try:
        base.mkdir(parents=True, exist_ok=True)
        lock = (base / f".fetch-{name}.lock").open("w")
    except OSError as error:
        raise AibError(f"{base} cannot be written to: {error.strerror}") from error
    with lock:
        _lock(lock.fileno(), name)
        for stale in base.glob(f".fetch-{name}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".fetch-{name}-", dir=base))
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            Path(lock.name).unlink(missing_ok=True)
            if created:
                with contextlib.suppress(OSError):  # not empty: the set is there
                    base.rmdir()


def _lock(descriptor: int, name: str) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: no lock
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise AibError(f"another process is fetching {name} here: wait for it") from error


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


class _Bar:
    """The progress bar that pooch expects, shown by rich."""

    def __init__(self, progress: Progress, label: str) -> None:
        self._progress, self._task = progress, progress.add_task(label, total=None)

    @property
    def total(self) -> float | None:
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, value: int) -> None:
        self._progress.update(self._task, total=value or None)

    def update(self, count: int) -> None:
        self._progress.advance(self._task, count)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None: ...
