"""Fetching: checked, safe, and complete or not at all."""

import hashlib
import http.server
import io
import tarfile
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from aib.data import load
from aib.data.fetch import fetch
from aib.data.specs import CIFAR10, PETS, SVHN, Archive
from aib.errors import AibError
from tests.data import official


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path):
    """(folder, address) of a web server on this machine."""
    folder = tmp_path / "site"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Handler, directory=str(folder))
    )
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def served(site, name: str, **options) -> Archive:
    """The archive of this name on our server."""
    folder, address = site
    md5 = hashlib.md5((folder / name).read_bytes()).hexdigest()
    return Archive(address + name, md5, **options)


def pack(folder: Path, target: Path) -> None:
    with tarfile.open(target, "w:gz") as tar:
        tar.add(folder, folder.name)


def cifar_at(site, name="cifar.tar.gz", content: bytes | None = None):
    """CIFAR-10's spec with its archive (a tiny one) on our server."""
    if content is None:
        official.write_cifar10(site[0] / "made")
        pack(site[0] / "made/cifar-10-batches-bin", site[0] / name)
    else:
        (site[0] / name).write_bytes(content)
    return replace(CIFAR10, archives=(served(site, name),))


def names_in(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir()) if root.exists() else []


def test_a_fetched_set_can_be_read_and_is_fetched_once(site, tmp_path):
    spec, root = cifar_at(site), tmp_path / "root"
    assert fetch(spec, root) == root / "cifar-10-batches-bin"
    assert len(load("cifar10", "train", root=root, holdout=0)) == 100
    assert names_in(root) == ["cifar-10-batches-bin"]
    (site[0] / "cifar.tar.gz").unlink()
    assert fetch(spec, root) == root / "cifar-10-batches-bin"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"md5": "0" * 32}, "checksum"), ({"url": "http://127.0.0.1:9/a.tar"}, "not be fetched")],
)
def test_a_wrong_checksum_or_a_dead_server_leaves_nothing(site, tmp_path, wrong, message):
    spec, root = cifar_at(site), tmp_path / "root"
    with pytest.raises(AibError, match=message):
        fetch(replace(spec, archives=(replace(spec.archives[0], **wrong),)), root)
    assert names_in(root) == []


def tar_with(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, link, 0 if link else 3
        tar.addfile(member, None if link else io.BytesIO(b"bad"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        tar_with("../evil"),
        tar_with("cifar-10-batches-bin/../../evil"),
        tar_with("cifar-10-batches-bin/link", tarfile.SYMTYPE, "/etc/passwd"),
        tar_with("cifar-10-batches-bin/link", tarfile.SYMTYPE, "../../../up"),
        tar_with("cifar-10-batches-bin/pipe", tarfile.FIFOTYPE, "x"),
        b"no archive at all",
        tar_with("elsewhere/file"),
    ],
)
def test_an_archive_with_other_paths_leaves_nothing(site, tmp_path, content):
    spec, root = cifar_at(site, content=content), tmp_path / "root"
    before = names_in(tmp_path)
    with pytest.raises(AibError, match="cannot be unpacked|does not contain"):
        fetch(spec, root)
    assert names_in(root) == []
    assert [name for name in names_in(tmp_path) if name != "root"] == before


def test_single_files_are_fetched_where_they_are_missing(site, tmp_path):
    official.write_svhn(site[0])
    files = [f"{split}_32x32.mat" for split in ("train", "test")]
    archives = tuple(served(site, f"svhn/{file}", part=file) for file in files)
    spec, root = replace(SVHN, archives=archives), tmp_path / "root"
    fetch(replace(spec, archives=archives[:1]), root)
    assert names_in(root / "svhn") == files[:1] and names_in(root) == ["svhn"]
    fetch(spec, root)
    assert names_in(root / "svhn") == sorted(files)


def pets_at(site):
    """The two archives of the pets (tiny ones) on our server."""
    pets, parts = official.write_pets(site[0]), ("images", "annotations")
    for part in parts:
        pack(pets / part, site[0] / f"{part}.tar.gz")
    return replace(PETS, archives=tuple(served(site, f"{p}.tar.gz", part=p) for p in parts))


def test_a_set_of_two_archives_is_completed_by_the_next_fetch(site, tmp_path):
    spec, root = pets_at(site), tmp_path / "root"
    second = (site[0] / "annotations.tar.gz").rename(site[0] / "hidden")
    with pytest.raises(AibError, match="could not be fetched"):
        fetch(spec, root)
    second.rename(site[0] / "annotations.tar.gz")
    assert fetch(spec, root) == root / "oxford-iiit-pet" and names_in(root) == ["oxford-iiit-pet"]
    assert load("pets", "test", root=root).mask(0) is not None
