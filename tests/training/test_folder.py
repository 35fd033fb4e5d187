"""The folder of a run: what it refuses, locks, and a disk that is full or gone."""

import os
from pathlib import Path
from typing import Any

import pytest

import aib
from aib.cli import main
from aib.config.options import ModelOptions
from aib.config.settings import Settings
from aib.data import load
from aib.models.weights import WEIGHTS
from aib.runs.files import read_metrics
from aib.training.fit import fit
from aib.training.folder import RunFolder, load_checkpoint, save_checkpoint
from aib.training.train import train
from tests.helpers import small_model, start_run

SHORT = Settings(
    data="shapes:count=96",
    model="tiny_aib_qt",
    options=ModelOptions(width=0.25),
    epochs=1,
    batch_size=16,
    log_every=1,
    checkpoint_every=0,
    accelerator="cpu",
)
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def create(folder: Path) -> RunFolder:
    return start_run(folder, small_model(), SHORT)


def test_an_interrupted_or_finished_run_is_not_overwritten(tmp_path: Path) -> None:
    run = create(tmp_path / "a b")
    save_checkpoint(run.checkpoint, {"step": 1})
    resume = f"`aib train --resume '{run.folder}'`"
    with pytest.raises(aib.AibError, match=f"interrupted run; resume it with {resume}"):
        train(SHORT, run.folder)
    with pytest.raises(aib.AibError, match=f"is an interrupted run: resume it with {resume}"):
        aib.from_pretrained(run.folder)
    run.write_weights(small_model())
    before = {p.name: p.read_bytes() for p in run.folder.iterdir()}
    with pytest.raises(aib.AibError, match="a b holds a finished run"):
        train(SHORT, run.folder)
    assert before == {p.name: p.read_bytes() for p in run.folder.iterdir()}


def test_a_failed_start_leaves_the_folder_free(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = "train --data shapes:count=96 --model tiny_aib_qt --width 0.25 --epochs 1 --out run"
    words += " --accelerator cpu --log-every 1 --batch-size"
    assert main([*words.split(), "128"]) == 2
    assert "fewer than one batch" in capsys.readouterr().err
    RunFolder(Path("run")).log({"step": 1000})  # a start may also fail later
    assert main(["train", "--resume", "run"]) == 2
    assert "run has no checkpoint.pt: there is nothing to resume" in capsys.readouterr().err
    assert main([*words.split(), "16"]) == 0
    assert max(row["step"] for row in read_metrics(Path("run"))) == 6


def test_a_folder_that_is_in_use_or_cannot_be_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("config.json", "thesis.tex"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text('{"name": "of something else"}')
        with pytest.raises(aib.AibError, match="is not empty"):
            create(tmp_path / name)
        assert [p.name for p in (tmp_path / name).iterdir()] == [name]
    with pytest.raises(aib.AibError, match="is a file"):
        create(tmp_path / "file")
    with pytest.raises(aib.AibError, match="/proc/run cannot be written"):
        create(Path("/proc/run"))


def test_two_processes_cannot_start_in_the_same_folder(tmp_path: Path) -> None:
    run = create(tmp_path / "run")  # it has no checkpoint yet
    before = (run.folder / "config.json").read_bytes()
    partial = run.folder / "checkpoint.pt.123.partial"
    partial.write_bytes(b"of a killed process")
    with run.locked(), pytest.raises(aib.AibError, match="another process is training"):
        assert not partial.exists()
        train(SHORT, run.folder)
    assert (run.folder / "config.json").read_bytes() == before


@needs_full
def test_a_full_disk_leaves_the_last_checkpoint_to_resume(tmp_path, monkeypatch):
    run = create(tmp_path / "run")

    def fill(path: Path, state: dict[str, Any]) -> None:
        if state["step"] == 4:
            path.with_name(f"{path.name}.{os.getpid()}.partial").symlink_to("/dev/full")
        save_checkpoint(path, state)

    data = load("shapes:count=96", "train", holdout=0)
    monkeypatch.setattr("aib.training.loop.save_checkpoint", fill)
    with pytest.raises(aib.AibError, match=f"no space left in {run.folder}"):
        fit(small_model(), data, SHORT, run=run.folder)
    assert load_checkpoint(run.checkpoint)["step"] == 3
    monkeypatch.undo()
    assert fit(small_model(), data, SHORT, run=run.folder, resume=True).steps == 6


@needs_full
def test_no_space_for_metrics_or_weights_is_an_error(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    run.metrics.symlink_to("/dev/full")
    with pytest.raises(aib.AibError, match=rf"metrics\.jsonl .*: no space left in {run.folder}"):
        run.log({"step": 1})
    (run.folder / f"{WEIGHTS}.{os.getpid()}.partial").symlink_to("/dev/full")
    with pytest.raises(aib.AibError, match=rf"{WEIGHTS} .*: no space left in {run.folder}"):
        run.write_weights(small_model())


def test_a_truncated_line_of_metrics_is_removed(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    for step in (1, 2, 3):
        run.log({"step": step})
    with run.metrics.open("a") as file:
        file.write('{"step": 4, "tot')
    assert [row["step"] for row in read_metrics(run.folder)] == [1, 2, 3]
    run.truncate_metrics(2)
    assert run.metrics.read_text() == '{"step": 1}\n{"step": 2}\n'
