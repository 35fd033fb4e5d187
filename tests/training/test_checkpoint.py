"""Checkpoint files: atomic, and safe to load from strangers."""

from pathlib import Path

import pytest
import torch

import aib
from aib.system.files import write_whole
from aib.training.folder import SCHEMA, load_checkpoint, save_checkpoint


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


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "owned",))

    torch.save({"schema": SCHEMA, "model": Evil()}, tmp_path / "checkpoint.pt")
    with pytest.raises(aib.AibError, match="cannot be read as a checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.pt")
    assert not (tmp_path / "owned").exists()


def test_a_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    """A bit flipped in the weights or in the zip's directory; and what is no checkpoint."""
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"weights": torch.ones(1000)})
    whole = path.read_bytes()
    contents = [b"", b"nonsense", b"PK\x03\x04 truncated"]
    directory = whole.index(b"PK\x01\x02")
    for position in (whole.index(torch.ones(4).numpy().tobytes()), directory, directory + 16):
        flipped = bytearray(whole)
        flipped[position] ^= 1
        contents.append(bytes(flipped))
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(aib.AibError) as error:
            load_checkpoint(path)
        assert str(path) in str(error.value) and "start a new run" in str(error.value)
