"""Two processes compute what one does, except for noise; they stop together, none is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import aib.models.attention
import aib.models.latent
from aib.cli import main
from aib.models.weights import WEIGHTS
from aib.training.fit import fit
from aib.training.folder import RunFolder, load_checkpoint
from tests.helpers import SMALL, image_set
from tests.training.processes import start_pair
from tests.training.test_loop import attached, zero_noise

TRAINING = (
    "train --data shapes:count=32 --model tiny_aib_qt --width 0.25 --batch-size 8 --workers 0 "
    "--accelerator cpu --devices 2 --out run"
).split()
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "LOCAL_RANK"}
ENVIRONMENT |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
needs_distributed = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch without distributed"
)


def train_on(devices: int) -> dict:
    """Train without noise and batch statistics."""
    write = RunFolder.write_weights

    def slow_write(run: RunFolder, trained: aib.Classifier) -> None:
        time.sleep(0.5)
        write(run, trained)

    with pytest.MonkeyPatch.context() as patch:
        for module in (aib.models.attention, aib.models.latent):
            patch.setattr(module, "noise_or_sample", zero_noise)
        patch.setattr(RunFolder, "write_weights", slow_write)
        model = attached()
        changed = {"log_every": 2, "ema": 0.9, "clip": 1.0, "head_epochs": 2}
        run = "run" if devices > 1 else None
        fitted = fit(model, image_set(), replace(SMALL, devices=devices, **changed), run=run)
    assert run is None or Path(run, WEIGHTS).is_file()  # in every process
    metrics = {k: fitted.last[k] for k in ("total", "kl", "error", "perplexity")}
    return {"last": model.state_dict(), "average": fitted.model.state_dict(), "metrics": metrics}


def train_as_one_of_two() -> None:
    found = train_on(2)
    if os.environ["RANK"] == "0":
        torch.save(found, "found.pt")


@needs_distributed
def test_a_run_on_two_devices_validates_and_ends(tmp_path: Path) -> None:
    more = "--ema 0.9 --ema-batch-norm 2 --label-smoothing 0.1 --trivial-augment --freeze quantizer"
    settings = f"--epochs 2 --holdout 0.2 --log-every 2 {more}"
    first, second = start_pair(main, [*TRAINING, *settings.split()], cwd=tmp_path)
    out = first.finish()
    assert out.count("top-1 error") == 1 and out.count("held-out error") == 2
    assert "error" not in second.finish()  # only the first process prints
    assert (tmp_path / "run" / "model.safetensors").exists()


@needs_distributed
def test_two_processes_end_with_the_weights_of_one(tmp_path: Path) -> None:
    for process in start_pair(train_as_one_of_two, cwd=tmp_path):
        process.finish()
    one, two = train_on(1), torch.load(tmp_path / "found.pt", weights_only=True)
    for which in ("last", "average"):
        for name, value in one[which].items():
            torch.testing.assert_close(two[which][name], value, rtol=1e-3, atol=1e-5, msg=name)
    # The anchors' usage is counted over both, not over the first process alone. A score on the
    # boundary of two anchors may take either.
    usage = [each["last"]["quantizer.usage"] for each in (one, two)]
    assert usage[0].sum() == usage[1].sum() == 40 * 16 * 16
    assert (usage[0] - usage[1]).abs().max() <= 5
    assert two["metrics"] == pytest.approx(one["metrics"], rel=1e-3)


on_linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@pytest.fixture
def training(tmp_path: Path) -> Iterator[subprocess.Popen]:
    """A training of two processes without end, in a process group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aib", *TRAINING, *"--epochs 100000 --log-every 1000000".split()],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    for number in members(process.pid):
        os.kill(number, signal.SIGKILL)


def members(group: int) -> list[int]:
    """The living processes of a group, without zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(folder.name))
    return found


def wait_until(happened, what: str) -> None:
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


@on_linux
def test_a_signal_stops_two_processes_within_a_step(tmp_path, training):
    # Written at the end of each epoch; the log interval is never reached.
    wait_until((tmp_path / "run" / "metrics.jsonl").exists, "the first epoch ends")
    assert len(members(training.pid)) >= 2
    training.send_signal(signal.SIGTERM)
    _, err = training.communicate(timeout=120)
    assert training.returncode == 128 + signal.SIGTERM, err
    step = load_checkpoint(tmp_path / "run" / "checkpoint.pt")["step"]
    assert err.count(f"stopped after step {step} of") == 1 and "Traceback" not in err
    assert members(training.pid) == []


@pytest.mark.slow
@on_linux
def test_workers_end_with_a_first_process_that_is_killed_before_they_meet(training):
    wait_until(lambda: len(members(training.pid)) > 1, "the second process starts")
    training.kill()
    training.communicate()
    wait_until(lambda: not members(training.pid), "the second process ends, too")


@pytest.mark.slow
@on_linux
def test_a_killed_worker_is_reported_in_a_sentence(tmp_path, training):
    wait_until((tmp_path / "run" / "metrics.jsonl").exists, "the first epoch ends")
    [worker] = [number for number in members(training.pid) if number != training.pid]
    os.kill(worker, signal.SIGKILL)
    _, err = training.communicate(timeout=120)
    assert training.returncode == 2 and "another process of this training has ended" in err
