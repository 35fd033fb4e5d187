"""Do the runs of a sweep: each in a process of its own, which trains or resumes and then measures.

The process is `python -m aib.sweep.run SWEEP NAME`.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from aib.config.settings import Settings
from aib.config.validation import parse_json
from aib.errors import AibError
from aib.evaluation.error import read_evaluations
from aib.interpret.per_image import measure_images
from aib.interpret.runs import feed_for
from aib.models.modes import evaluating
from aib.models.weights import CHECKPOINT, CONFIG, EVALUATION, WEIGHTS
from aib.runs.files import reported, train_seconds
from aib.runs.run import open_run
from aib.sweep.plan import PlannedRun, read_plan
from aib.system.environment import environment
from aib.system.files import finite, read_json, sha256, write_json
from aib.training.folder import RunFolder
from aib.training.interrupt import Interrupted, SignalCatcher
from aib.training.progress import LineReporter
from aib.training.train import train

OnEnd = Callable[[PlannedRun, str | None], None]  # a run, and its error if it failed
POLL = 0.2  # seconds
MEASUREMENT = "sweep_metrics.json"  # in a run's folder
MAP_METRICS = ("auroc", "pointing", "energy_inside", "entropy_bits", "contrast")


@dataclass(frozen=True)
class RunMetrics:
    """Metrics of one run; None for what its model or data do not have.

    Accuracy (percent), NLL, calibration error and bits are the evaluation's, with samples; the
    rest describes the maps without noise.
    """

    accuracy: float
    accuracy_interval: tuple[float, float] | None = None
    nll: float | None = None
    calibration_error: float | None = None
    bits: float | None = None
    auroc: float | None = None
    pointing: float | None = None
    energy_inside: float | None = None
    perplexity: float | None = None
    entropy_bits: float | None = None
    contrast: float | None = None
    flat_maps: float | None = None


@dataclass(frozen=True)
class Measurement:
    """The metrics of a run and how they were measured: sweep_metrics.json in its folder."""

    weights_sha256: str
    metrics: RunMetrics
    split: str
    images: int
    samples: str
    train_seconds: float
    environment: dict[str, Any]
    data: str = ""


def run_one(sweep: Path, name: str) -> None:
    """Do what is left of one run."""
    run = next(run for run in read_plan(sweep).runs if run.name == name)
    folder = sweep / name
    lock = log_path(sweep, name).with_suffix(".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    # A killed sweep may leave a process behind that is still saving: wait for it.
    with FileLock(lock):
        check_settings(run, folder)
        if is_done(folder):
            return
        if not is_evaluated(folder, reported(run.settings)):
            started = (folder / CHECKPOINT).is_file()
            train(run.settings, folder, resume=started, report=LineReporter())
        write_json(folder / MEASUREMENT, finite(asdict(measure(folder, run.settings))))


def log_path(sweep: Path, name: str) -> Path:
    """The log of a run. Not in the run's own folder, which `train` creates."""
    return sweep / "logs" / f"{name}.log"


def check_settings(run: PlannedRun, folder: Path) -> None:
    """Require that an existing run has the plan's settings."""
    if (folder / CONFIG).is_file():
        RunFolder(folder).check_settings(run.settings)


def is_done(folder: Path) -> bool:
    """Whether the run is trained, and measured with these weights."""
    found, weights = read_measurement(folder), folder / WEIGHTS
    return found is not None and weights.is_file() and found.weights_sha256 == sha256(weights)


def is_evaluated(folder: Path, name: str) -> bool:
    """Whether the run is trained, and evaluated with these weights."""
    found, weights = read_evaluations(folder / EVALUATION).get(name), folder / WEIGHTS
    return found is not None and weights.is_file() and found.is_of(sha256(weights))


def read_measurement(folder: Path) -> Measurement | None:
    """The measurement of a run; None if there is none yet, or it is damaged and made again."""
    path = folder / MEASUREMENT
    try:
        found = read_json(path)
        return None if found is None else parse_json(Measurement, found, path)
    except AibError:
        return None


def measure(folder: Path, settings: Settings) -> Measurement:
    """Measure a trained run on the images it is reported on."""
    device = "cpu" if settings.accelerator == "cpu" else None
    run = open_run(folder, device, settings.backbone)
    evaluation = run.evaluations()[reported(settings)]
    images = run.labelled(run.images(split=evaluation.split))
    feed = feed_for(run, images, workers=settings.workers)
    with evaluating(run.model):
        seen = measure_images(run.model, feed, {})
    low, high = evaluation.top1_interval
    metrics = RunMetrics(
        accuracy=100 - evaluation.top1_error,
        accuracy_interval=(100 - high, 100 - low),
        nll=evaluation.nll,
        calibration_error=evaluation.calibration_error,
        bits=evaluation.kl_bits,
        perplexity=seen.perplexity,
        flat_maps=seen.mean("flat"),
        **{name: seen.mean(name) for name in MAP_METRICS},
    )
    return Measurement(
        weights_sha256=run.checksum,
        metrics=metrics,
        split=feed.data.split,
        images=feed.num_images,
        samples=evaluation.samples,
        train_seconds=train_seconds(folder),
        environment=environment(),
        data=settings.data,
    )


def run_all(
    sweep: Path, runs: Sequence[PlannedRun], jobs: int, on_end: OnEnd, stop: SignalCatcher
) -> None:
    """Do all runs. A failed run does not affect the others; on a stop, active runs save first."""
    waiting = deque(runs)
    running: dict[int, tuple[PlannedRun, subprocess.Popen[bytes]]] = {}
    try:
        while running or (waiting and stop.signal is None):
            for slot in range(jobs):
                if waiting and slot not in running and stop.signal is None:
                    run = waiting.popleft()
                    running[slot] = (run, start(sweep, run, slot, jobs))
            for slot, (run, process) in list(running.items()):
                if stop.signal is not None and process.stdin is not None:
                    process.stdin.close()  # see `stop_with_parent`
                if process.poll() is not None:
                    del running[slot]
                    on_end(run, failure(process.returncode, log_path(sweep, run.name)))
            time.sleep(POLL)
    finally:  # after a second Ctrl-C or an error: leave no process behind
        for _, process in running.values():
            process.kill()
            process.wait()


def start(sweep: Path, run: PlannedRun, slot: int, jobs: int) -> "subprocess.Popen[bytes]":
    """Start one run in its own process group, so that Ctrl-C reaches it only through us."""
    log = log_path(sweep, run.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            command(sweep, run),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment_of(slot, jobs),
            start_new_session=True,
        )


def command(sweep: Path, run: PlannedRun) -> list[str]:
    return [sys.executable, "-m", "aib.sweep.run", str(sweep), run.name]


def environment_of(slot: int, jobs: int) -> dict[str, str]:
    """Environment variables of a job: its share of the cores and, of several GPUs, one."""
    variables = dict(os.environ)
    if jobs > 1:
        variables.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // jobs)))
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    if len(gpus) > 1:
        variables["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return variables


def failure(code: int, log: Path) -> str | None:
    """Why a run failed, from its exit code and log; None if it did not."""
    if code == 0:
        return None
    if code in (130, 143, -2, -15):
        return "stopped"
    if code < 0:
        return f"ended by signal {-code}; its log is {log}"
    last = log.read_text(errors="replace").strip().rpartition("\n")[2] or "no message"
    return last if code == 2 else f"{last}; its log is {log}"


def stop_with_parent() -> None:
    """Stop, as on SIGTERM, when standard input ends: the sweep closed it or has died."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main(argv: list[str]) -> int:
    """Exit codes: 0 done, 2 for an `AibError`, 128 + signal when stopped."""
    sweep, name = argv
    stop_with_parent()
    try:
        run_one(Path(sweep), name)
    except Interrupted as stopped:
        return 128 + stopped.signal
    except AibError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
