"""One run of a sweep, in a process of its own: train or go on, then measure.

`python -m aib.sweep.one SWEEP NAME` is what the engines start.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from filelock import FileLock

from aib.classifier import evaluating
from aib.environment import environment
from aib.errors import AibError
from aib.files import finite, sha256, write_json
from aib.interpret.per_image import ImageMetrics, measure_images
from aib.interpret.runs import feed_for
from aib.runs import CHECKPOINT, EVALUATION, open_runs, train_seconds
from aib.settings import Settings
from aib.sweep.plan import Planned, read_plan
from aib.training.folder import RunFolder
from aib.training.interrupt import Interrupted
from aib.training.progress import LineReporter
from aib.training.train import train
from aib.weights import CONFIG, WEIGHTS

MEASURED = "sweep_figures.json"  # in a run's folder
LOGS = "logs"  # in the sweep's


def perform(sweep: Path, name: str) -> None:
    """Do what is left to do of one run."""
    run, folder = read_plan(sweep).find(name), sweep / name
    lock = log_of(sweep, name).with_suffix(".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    # A sweep that was killed may leave a run behind that is still saving: wait for it.
    with FileLock(lock):
        check(run, folder)
        if is_done(folder):
            return
        if not _is_trained(folder, run.settings):
            started = (folder / CHECKPOINT).is_file()
            train(run.settings, folder, resume=started, report=LineReporter())
        write_json(folder / MEASURED, measure(folder, run.settings))


def log_of(sweep: Path, name: str) -> Path:
    """What the run says goes here; its own folder is for `train` to make."""
    return sweep / LOGS / f"{name}.log"


def check(run: Planned, folder: Path) -> None:
    """A run that is there already must be of the plan's settings."""
    if (folder / CONFIG).is_file():
        RunFolder.reopen(folder, run.settings)


def is_done(folder: Path) -> bool:
    """Trained, and measured with the weights that are there."""
    found = read_measured(folder)
    weights = folder / WEIGHTS
    return found is not None and weights.is_file() and found["weights_sha256"] == sha256(weights)


def _is_trained(folder: Path, settings: Settings) -> bool:
    return (folder / WEIGHTS).is_file() and settings.reported in _evaluations(folder)


def read_measured(folder: Path) -> dict[str, Any] | None:
    """A run's figures; None if there are none yet, or they are damaged and will be made again."""
    try:
        found = json.loads((folder / MEASURED).read_text(encoding="utf-8"))
        return found if {"figures", "weights_sha256"} <= set(found) else None
    except (OSError, ValueError, TypeError):
        return None


def _evaluations(folder: Path) -> dict[str, Any]:
    path = folder / EVALUATION
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise AibError(f"{path} is damaged: {error}; remove it") from error


def measure(folder: Path, settings: Settings) -> dict[str, Any]:
    """The figures of a trained run on the images it is reported on."""
    [opened] = open_runs((folder,), "cpu" if settings.accelerator == "cpu" else None)
    evaluation = _evaluations(folder)[settings.reported]
    feed = feed_for(opened, opened.labelled_images(), workers=settings.workers)
    with evaluating(opened.model):
        seen = measure_images(opened.model, feed, {})
    return finite(
        {
            "weights_sha256": opened.checksum,
            "data": settings.data,
            "split": feed.data.split,
            "images": len(feed),
            "samples": evaluation["samples"],
            "figures": figures(evaluation, seen),
            "train_seconds": train_seconds(folder),
            "environment": environment(),
        }
    )


def figures(evaluation: dict[str, Any], seen: ImageMetrics) -> dict[str, Any]:
    """Error and bits as the evaluation's samples gave them; the maps without noise."""
    return {
        "accuracy": 100 - evaluation["top1_error"],
        "accuracy_interval": [100 - bound for bound in reversed(evaluation["top1_interval"])],
        "nll": evaluation["nll"],
        "calibration_error": evaluation["calibration_error"],
        "bits": evaluation["kl_bits"],
        "auroc": seen.mean("auroc"),
        "pointing": seen.mean("pointing"),
        "energy_inside": seen.mean("energy_inside"),
        "perplexity": seen.perplexity,
        "entropy_bits": seen.mean("entropy_bits"),
        "contrast": seen.mean("contrast"),
        "flat_maps": seen.mean("flat"),
    }


def stop_with_parent() -> None:
    """Stop, as on SIGTERM, when standard input ends: the sweep closes it, or has itself died."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main(argv: list[str]) -> int:
    """Exit codes: 0 done, 2 an error that one sentence explains, 128 + signal when stopped."""
    sweep, name = argv
    stop_with_parent()
    try:
        perform(Path(sweep), name)
    except Interrupted as stopped:
        return 128 + stopped.signal
    except AibError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
