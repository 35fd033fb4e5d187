"""Runs that are killed, stopped and resumed end with the same weights."""

import random
import re
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import aib
from aib.cli import main
from aib.config.settings import Settings
from aib.data import load
from aib.errors import AibError
from aib.runs.files import read_metrics, read_settings, train_seconds
from aib.training.folder import RunFolder, load_checkpoint
from aib.training.interrupt import Interrupted
from aib.training.loop import Fitted
from aib.training.progress import Reporter
from aib.training.train import train
from tests.helpers import SmallNet, image_set, same_weights, small_model
from tests.training.processes import start_training

OPTIONS = (
    "--data shapes:count=48 --model tiny_aib_qt --width 0.25 --epochs 6 --batch-size 8 "
    "--log-every 1 --checkpoint-every 0 --ema 0.9 --beta-warmup 2 --accelerator cpu "
    "--schedule cosine"
).split()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    start_training([*OPTIONS, "--out", "whole"], folder).finish()
    return folder / "whole"


def unfinished(run: Path, target: Path) -> Path:
    """A copy of a finished run as it was before its weights were written."""
    shutil.copytree(run, target)
    (target / "model.safetensors").unlink()
    return target


def assert_same_weights(a: Path, b: Path) -> None:
    mine, theirs = load_file(a / "model.safetensors"), load_file(b / "model.safetensors")
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name
    ours, checkpoint = load_checkpoint(a / "checkpoint.pt"), load_checkpoint(b / "checkpoint.pt")
    for name, value in ours["model"].items():
        assert torch.equal(value, checkpoint["model"][name]), name


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))]
)
def test_a_killed_run_ends_with_the_same_bits(uninterrupted: Path, seed: int) -> None:
    """SIGKILL at random moments, twice."""
    rng, folder = random.Random(seed), uninterrupted.parent
    run = folder / f"killed{seed}"
    process = start_training([*OPTIONS, "--out", run.name], folder)
    process.wait_for(run / "config.json")
    for again in (True, False):
        time.sleep(rng.uniform(0.0, 1.0))
        process.kill()
        begun = (run / "checkpoint.pt").exists()  # before the first one there is nothing to resume
        words = ["--resume", run.name] if begun else [*OPTIONS, "--out", run.name]
        if again:
            process = start_training(words, folder)
            # Sometimes it is killed before it has resumed, which must do no harm either.
            if rng.random() < 0.7:
                process.wait_for(run / "checkpoint.pt")
    start_training(words, folder).finish()
    assert_same_weights(uninterrupted, run)
    steps = [row["step"] for row in read_metrics(run) if "total" in row]
    assert steps == list(range(1, 37))  # each step once, none lost


def test_a_signal_saves_and_says_how_to_resume(uninterrupted: Path) -> None:
    """Ctrl-C; for SIGTERM see test_parallel.py."""
    folder, run = uninterrupted.parent, "stopped run"
    process = start_training([*OPTIONS, "--checkpoint-every", "1000", "--out", run], folder)
    process.wait_for(folder / run / "metrics.jsonl")
    process.send(signal.SIGINT)
    err = process.finish(128 + signal.SIGINT)
    assert f"aib train --resume '{run}'" in err and "Traceback" not in err
    step = load_checkpoint(folder / run / "checkpoint.pt")["step"]
    assert f"stopped after step {step} of 36" in err
    start_training(["--resume", run], folder).finish()
    assert_same_weights(uninterrupted, folder / run)


def test_machine_settings_may_change_on_resume(uninterrupted: Path, tmp_path: Path) -> None:
    """In config.json or on the command line: the result is the same. Only one process resumes."""
    folder = unfinished(uninterrupted, tmp_path / "run")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"workers": 2', '"workers": 0'))
    settings = replace(read_settings(folder), log_every=7)
    assert settings.workers == 0
    before = (folder / "metrics.jsonl").read_bytes()
    with RunFolder(folder).locked(), pytest.raises(aib.AibError, match="another process is"):
        train(settings, folder, resume=True)
    assert (folder / "metrics.jsonl").read_bytes() == before
    train(settings, folder, resume=True)
    assert_same_weights(uninterrupted, folder)


def test_other_settings_may_not_change_on_resume(uninterrupted, tmp_path, capsys):
    folder = unfinished(uninterrupted, tmp_path / "run")
    assert main(["train", "--resume", str(folder), "--lr", "7"]) == 2
    err = capsys.readouterr().err
    assert err == f"aib train: {folder} is a run with other settings: lr was 0.1 and is now 7.0\n"
    for changed in ({"devices": 2}, {"beta": 0.5}):  # each process samples noise of its own
        with pytest.raises(aib.AibError, match=f"other settings: {next(iter(changed))} was"):
            RunFolder(folder).check_settings(replace(read_settings(folder), **changed))


class StopAfter(Reporter):
    """Presses Ctrl-C during a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def metrics(self, row: dict[str, Any]) -> None:
        if row["step"] == self.step:
            signal.raise_signal(signal.SIGINT)


def test_a_training_in_python_is_resumed_by_the_same_call(tmp_path, capsys):
    images = load("shapes:count=96", "train")
    data = [(image, int(label)) for image, label in zip(images.images, images.labels, strict=True)]
    folder, lost = str(tmp_path / "run"), tmp_path / "lost"
    s = Settings(epochs=2, batch_size=16, log_every=1, ema=0.9, accelerator="cpu")
    how = re.escape(f"`aib.fit(..., run={folder!r}, resume=True)`")
    whole = aib.fit(small_model(), data, s).model

    def resume(
        s: Settings,
        model: aib.Classifier | None = None,
        run: Any = folder,
        images: list[Any] = data,
    ) -> Fitted:
        return aib.fit(model or small_model(), images, s, run=run, resume=True)

    with pytest.raises(Interrupted, match=f"stopped after step 4 of 10; resume with {how}"):
        aib.fit(small_model(), data, s, run=folder, report=StopAfter(4))
    stopped = read_metrics(Path(folder))[-1]
    assert stopped["step"] == 4
    for call, error in (
        (lambda: aib.fit(small_model(), data, s, run=folder), f"interrupted run; .*{how}"),
        (lambda: aib.from_pretrained(folder), f"is an interrupted run: .*{how}"),
        (lambda: resume(replace(s, lr=0.2)), r"lr was 0\.1 and is now 0\.2"),
        (lambda: resume(s, small_model(width=0.5)), r"width was 0\.25 and is now 0\.5"),
        (lambda: resume(s, aib.attach(SmallNet(), "features", 10)), "is now attached"),
        (lambda: resume(s, images=data[:64]), "images was 86 and is now 64"),
        (lambda: resume(s, run=None), "name the folder of the run"),
        (lambda: resume(s, run=lost), "nothing to resume"),
    ):
        with pytest.raises(AibError, match=error):
            call()
    assert not lost.exists()
    assert main(["train", "--resume", folder]) == 2
    assert f"resume it in Python, with `aib.fit(..., run={folder!r}" in capsys.readouterr().err

    resumed = resume(replace(s, log_every=2))
    assert same_weights(resumed.model, whole)
    assert same_weights(aib.from_pretrained(folder), whole)
    rows = [row for row in read_metrics(Path(folder)) if "seconds" in row]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6, 8, 10]
    assert rows[4]["seconds"] > stopped["seconds"]  # of the training, not of its last part
    assert resumed.seconds >= rows[-1]["seconds"] == train_seconds(Path(folder))
    with pytest.raises(AibError, match="holds a finished run"):
        aib.fit(small_model(), data, s, run=folder)
    assert main(["eval", folder]) == 2
    assert "name its data with --data" in capsys.readouterr().err


def test_a_masked_training_with_a_budget_for_the_mean_resumes_with_the_same_bits(tmp_path):
    s = Settings(epochs=2, batch_size=16, accumulate=2, budget="mean", log_every=1)
    s, data = replace(s, accelerator="cpu"), image_set(48, 10)

    def train_again(**options: Any) -> Fitted:
        model = small_model("tiny_aib_masked", area=0.3)
        return aib.fit(model, data, s, **options)

    whole, run = train_again(), {"run": tmp_path / "run"}
    with pytest.raises(Interrupted):
        train_again(**run, report=StopAfter(4))
    resumed = train_again(**run, resume=True)
    assert same_weights(resumed.model, whole.model) and resumed.last["excess"] > 0


def test_a_finished_training_that_is_resumed_has_its_results(tmp_path: Path) -> None:
    s = Settings(epochs=2, batch_size=8, accelerator="cpu")

    def train_again(**options: Any) -> Fitted:
        data = {"data": image_set(16, 10), "validation": image_set(12, 10)}
        return aib.fit(small_model(), settings=s, run=tmp_path / "run", **data, **options)

    first, again = train_again(), train_again(resume=True)
    assert again.last == first.last and again.last["step"] == again.steps == 4
    assert first.validation is not None and again.validation is not None
    assert again.validation.nll == first.validation.nll
