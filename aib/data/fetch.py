"""Download official files: check, unpack in a temporary folder, move into place when complete."""

import logging
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pooch

from aib.data.files import locate, root_folder
from aib.data.specs import Archive, Spec
from aib.errors import AibError


def fetch(spec: Spec, root: str | Path | None = None) -> Path:
    """Download a data set to `root` unless it is there, and return its folder."""
    if not spec.archives:
        raise AibError(f"{spec.name} is generated, so there is nothing to fetch")
    base = root_folder(root)
    folder = locate(spec, base) or base / spec.folders[0]
    holds = {archive: folder / archive.part for archive in spec.archives}
    missing = [archive for archive, held in holds.items() if not held.exists()]
    if not missing:
        return folder
    base.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".fetch-", dir=base) as name:  # the last step is a rename
        temporary = Path(name)
        for archive in missing:
            path = _download(archive, temporary)
            if archive.file_name != archive.part:  # a tar file
                try:  # the filter stops at paths and links out of the folder, and at devices
                    with tarfile.open(path) as tar:
                        tar.extractall(temporary, filter="data")
                except (tarfile.TarError, EOFError, OSError) as error:
                    raise AibError(f"{path.name} cannot be unpacked: {error}") from error
                path = temporary / (archive.part or spec.folders[0])
                if not path.is_dir():
                    raise AibError(f"{archive.file_name} does not contain {path.name}/")
            holds[archive].parent.mkdir(parents=True, exist_ok=True)
            path.replace(holds[archive])
    return folder


def _download(archive: Archive, folder: Path) -> Path:
    """Download one file; pooch checks its hash."""
    pooch.get_logger().setLevel(logging.WARNING)
    bar = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30)
    checksum = f"md5:{archive.md5}"
    try:
        return Path(
            pooch.retrieve(archive.url, checksum, archive.file_name, folder, downloader=bar)
        )
    except ValueError as error:  # what pooch raises for a wrong checksum
        raise AibError(f"{archive.url} is not the published file, its checksum differs") from error
    except Exception as error:  # requests and urllib3 raise many kinds
        raise AibError(
            f"{archive.url} could not be fetched ({type(error).__name__}): try again later, "
            f"or put the files in a folder yourself and name it with --root"
        ) from error
