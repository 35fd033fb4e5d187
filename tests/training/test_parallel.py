"""Two processes compute what one does, except for noise; they stop together, none is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from aib.errors import AibError
from aib.settings import Settings
from aib.training.checkpoint import load_checkpoint
from aib.training.fabric import make_fabric

SCRIPT = """
import os, sys, torch
from torch import nn
import aib, aib.bottleneck, aib.latent
from aib.data import ImageSet
from aib.training.loop import fit
from aib.settings import Settings

# Held fixed: no noise, no batch statistics.
zero = lambda noise, shape, like, name: torch.zeros(shape, dtype=like.dtype)
aib.attention.noise_or_sample = aib.latent.noise_or_sample = zero

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.fc = nn.Linear(8, 4)
    def forward(self, x):
        return self.fc(self.b(self.a(x)).mean((2, 3)))

devices, out = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
model = aib.attach(Net(), "a", 4, quantizer=6, latent_dim=8, image_size=32)
noise = torch.Generator().manual_seed(1)
pixels = torch.randint(256, (40, 3, 32, 32), dtype=torch.uint8, generator=noise)
data = ImageSet.from_tensors(pixels, torch.arange(40) % 4)
settings = Settings(
    epochs=2, batch_size=8, lr=0.05, log_every=2, accelerator="cpu", devices=devices, ema=0.9,
    clip=1.0, oversubscribe=True,
)
fitted = fit(model, data, settings)
if int(os.environ.get("LOCAL_RANK", 0)) == 0:
    metrics = {k: fitted.last[k] for k in ("total", "kl", "error", "perplexity")}
    states = {"last": model.state_dict(), "average": fitted.model.state_dict()}
    torch.save({**states, "metrics": metrics}, out)
"""


def train_with(devices: int, folder: Path) -> dict:
    script, out = folder / "script.py", folder / f"{devices}.pt"
    script.write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if k != "LOCAL_RANK"}
    environment["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(
        [sys.executable, str(script), str(devices), str(out)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return torch.load(out, weights_only=True)


def test_a_run_on_two_devices_validates_tests_and_ends(tmp_path: Path) -> None:
    words = (
        "--data shapes:count=96 --model tiny_aib_qt --width 0.25 --epochs 2 --batch-size 16 "
        "--holdout 0.2 --accelerator cpu --devices 2 --oversubscribe --log-every 2 --out run "
        "--ema 0.9 --ema-batch-norm 2 --mixup 0.4 --trivial-augment --freeze stem.0"
    )
    done = subprocess.run(
        [sys.executable, "-m", "aib", "train", *words.split()],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("top-1 error") == 1  # only the first process prints
    assert done.stdout.count("held-out error") == 2
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_two_processes_end_with_the_weights_of_one(tmp_path: Path) -> None:
    one, two = train_with(1, tmp_path), train_with(2, tmp_path)
    for which in ("last", "average"):
        for name, value in one[which].items():
            torch.testing.assert_close(two[which][name], value, rtol=1e-3, atol=1e-5, msg=name)
    # The anchors' usage is counted over both, not over the first process alone. A score on the
    # boundary of two anchors may take either.
    usage = [each["last"]["quantizer.usage"] for each in (one, two)]
    assert usage[0].sum() == usage[1].sum() == 40 * 16 * 16
    assert (usage[0] - usage[1]).abs().max() <= 5
    assert two["metrics"] == pytest.approx(one["metrics"], rel=1e-3)


def test_more_processes_than_cores_are_refused_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    make_fabric(Settings(accelerator="cpu", devices=2))
    with pytest.raises(AibError, match=r"8 processes .* 2 CPU cores .*--oversubscribe"):
        make_fabric(Settings(accelerator="cpu", devices=8))
    make_fabric(Settings(accelerator="cpu", devices=8, oversubscribe=True))


ENDLESS = (
    "--data shapes:count=96 --model tiny_aib_qt --width 0.25 --epochs 100000 --batch-size 16 "
    "--accelerator cpu --devices 2 --oversubscribe --log-every 1000000 --out run"
).split()
on_linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def start_endless(folder: Path) -> subprocess.Popen:
    """A training of two processes, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "aib", "train", *ENDLESS],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


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
def test_a_signal_stops_two_processes_within_a_step(tmp_path: Path) -> None:
    training = start_endless(tmp_path)
    try:
        # Written at the end of each epoch; the log interval is never reached.
        wait_until((tmp_path / "run" / "metrics.jsonl").exists, "the first epoch ends")
        assert len(members(training.pid)) >= 2
        training.send_signal(signal.SIGTERM)
        _, err = training.communicate(timeout=120)
        assert training.returncode == 128 + signal.SIGTERM, err
        step = load_checkpoint(tmp_path / "run" / "checkpoint.pt")["step"]
        assert err.count(f"stopped after step {step} of") == 1 and "Traceback" not in err
        assert members(training.pid) == []
    finally:
        for process in members(training.pid):
            os.kill(process, signal.SIGKILL)


@on_linux
def test_workers_end_with_a_first_process_that_is_killed_before_they_meet(tmp_path: Path) -> None:
    training = start_endless(tmp_path)
    try:
        wait_until(lambda: len(members(training.pid)) > 1, "the second process starts")
        training.kill()
        training.communicate()
        wait_until(lambda: not members(training.pid), "the second process ends, too")
    finally:
        for process in members(training.pid):
            os.kill(process, signal.SIGKILL)
