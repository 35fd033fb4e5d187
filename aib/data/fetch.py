"""Downloading official files: checked, unpacked aside, and moved into place only when whole."""

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pooch
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from aib.data.archive import extract
from aib.data.files import locate, root_folder
from aib.data.specs import Archive, Spec
from aib.errors import AibError

RETRIES = 2


def fetch(spec: Spec, root: str | Path | None = None, *, extra: bool = False) -> Path:
    """Download a set below `root` unless it is there, and return its folder.

    extra: also the files of the split `extra`.
    """
    if not spec.archives:
        raise AibError(f"{spec.name} is generated, there is nothing to fetch")
    base = root_folder(root)
    wanted = [a for a in spec.archives if a.split != "extra" or extra]
    if not any(a.folder for a in wanted):
        return _fetch_files(spec, wanted, base)
    there = locate(spec, base)
    if there is not None:
        return there
    with _aside(base, spec.name) as temporary, _bars() as bars:
        made = _from_archive(wanted[0], temporary, bars)
        return _into_place(made, base / made.name)


def _fetch_files(spec: Spec, files: list[Archive], base: Path) -> Path:
    """Sets that are a few files: each is moved into place by itself."""
    folder = locate(spec, base) or base / spec.folders[0]
    missing = [file for file in files if not (folder / file.file_name).is_file()]
    if missing:
        with _aside(base, spec.name) as temporary, _bars() as bars:
            for file in missing:
                path = _download(file, temporary, bars)
                folder.mkdir(exist_ok=True)
                path.replace(folder / file.file_name)
    return folder


def _from_archive(archive: Archive, temporary: Path, bars: Progress) -> Path:
    path = _download(archive, temporary, bars)
    task = bars.add_task(f"unpacking {archive.file_name}", total=None)
    extract(path, temporary, lambda done: bars.advance(task, done))
    folder = temporary / archive.folder
    if not folder.is_dir():
        raise AibError(f"{archive.file_name} does not contain {archive.folder}/")
    return folder


def _download(archive: Archive, folder: Path, bars: Progress) -> Path:
    """pooch checks the sum and starts again on a broken connection; we add the sentence."""
    pooch.get_logger().setLevel(logging.WARNING)
    downloader = pooch.HTTPDownloader(progressbar=_Bar(bars, archive.file_name), timeout=30)
    store = pooch.create(
        path=folder,
        base_url="",
        registry={archive.file_name: archive.checksum},
        urls={archive.file_name: archive.url},
        retry_if_failed=RETRIES,
    )
    try:
        return Path(store.fetch(archive.file_name, downloader=downloader))
    except ValueError as error:  # pooch's word for a wrong checksum
        raise AibError(f"{archive.url} is not the published file, its checksum differs") from error
    except Exception as error:  # requests and urllib3 raise many kinds
        raise AibError(
            f"{archive.url} could not be fetched ({type(error).__name__}): try again later, "
            f"or put the files under a folder yourself and name it with --root"
        ) from error


@contextlib.contextmanager
def _aside(base: Path, name: str) -> Iterator[Path]:
    """A hidden folder under `base`, so that the last step is a rename on one file system.

    It goes away whatever happens; what a killed process left, the next fetch takes away. The lock
    keeps two fetches of one set apart, and dies with its process.
    """
    ours = not base.exists()
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
            if ours:
                with contextlib.suppress(OSError):  # there is something in it now: good
                    base.rmdir()


def _lock(descriptor: int, name: str) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two fetches at once are then the user's affair
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise AibError(f"another process is fetching {name} here: wait for it") from error


def _into_place(made: Path, target: Path) -> Path:
    """One rename: the set is there whole, or not at all."""
    try:
        return made.rename(target)
    except OSError as error:
        raise AibError(f"{target} cannot be put in place: {error.strerror}") from error


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


class _Bar:
    """What pooch expects of a progress bar, drawn by rich."""

    def __init__(self, bars: Progress, label: str) -> None:
        self._bars, self._task = bars, bars.add_task(label, total=None)

    @property
    def total(self) -> float | None:
        return self._bars.tasks[self._task].total

    @total.setter
    def total(self, value: int) -> None:
        self._bars.update(self._task, total=value or None)

    def update(self, count: int) -> None:
        self._bars.advance(self._task, count)

    def reset(self) -> None:
        self._bars.update(self._task, completed=0)

    def close(self) -> None: ...
