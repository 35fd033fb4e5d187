"""Checkpoint files: atomic, and safe to load from strangers."""

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest
import torch

import aib
from aib.system.files import write_whole
from aib.training.checkpoint import load_checkpoint, save_checkpoint


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"step": 1})

    def full(partial: Path) -> None:
        partial.write_bytes(b"half a")
        raise OSError(28, "No space left on device")

    message = f"no space left in {tmp_path}, free some; the previous file is unchanged"
    with pytest.raises(aib.AibError, match=message):
        write_whole(path, full)
    assert load_checkpoint(path)["step"] == 1
    assert list(tmp_path.iterdir()) == [path]


def repack(path: Path, target: Path, compression: int, pickled: bytes | None = None) -> Path:
    """The checkpoint packed again, optionally with another pickle."""
    with ZipFile(path) as source, ZipFile(target, "w", compression) as copy:
        for name in source.namelist():
            other = pickled is not None and name.endswith("/data.pkl")
            copy.writestr(name, pickled if other else source.read(name))
    return target


def test_loading_takes_no_more_memory_than_the_file_or_the_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed zeros, and a pickle of some bytes that makes torch.load allocate a gigabyte."""
    path, bomb = tmp_path / "checkpoint.pt", tmp_path / "bomb.pt"
    save_checkpoint(path, {"weights": torch.zeros(1_000_000)})
    assert load_checkpoint(repack(path, bomb, ZIP_STORED))["weights"].shape == (1_000_000,)
    repack(path, bomb, ZIP_DEFLATED)
    assert bomb.stat().st_size < 10_000
    with pytest.raises(aib.AibError, match=r"bomb\.pt cannot be read .*: it is compressed"):
        load_checkpoint(bomb)
    huge = b"\x80\x02cbuiltins\nbytearray\nJ\x00\x00\x00\x40\x85R."
    with pytest.raises(aib.AibError, match="other than tensors and numbers: builtins bytearray"):
        load_checkpoint(repack(path, bomb, ZIP_STORED, huge))
    monkeypatch.setattr("aib.training.checkpoint.machine_memory", lambda: 1000)
    with pytest.raises(aib.AibError, match="and this machine 0.0"):
        load_checkpoint(path)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "owned",))

    torch.save({"schema": 2, "model": Evil()}, tmp_path / "checkpoint.pt")
    with pytest.raises(aib.AibError, match="cannot be read as a checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.pt")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 truncated"])
def test_a_damaged_checkpoint_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(content)
    with pytest.raises(aib.AibError, match="cannot be read as a checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.pt")


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"weights": torch.ones(1000)})
    content = bytearray(path.read_bytes())
    where = content.index(torch.ones(4).numpy().tobytes()) + 40
    content[where] ^= 1
    path.write_bytes(content)
    with pytest.raises(aib.AibError, match=r"checkpoint\.pt .* damaged; start a new run"):
        load_checkpoint(path)
