"""The folder that a training writes: config.json, metrics.jsonl, checkpoint.pt, weights."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch

from aib.config.settings import MACHINE, Settings
from aib.errors import AibError, first_line
from aib.models.classifier import Classifier
from aib.models.weights import (
    CHECKPOINT,
    CONFIG,
    LOCK,
    METRICS,
    SPLIT,
    WEIGHTS,
    how_to_resume,
    read_config,
    write_weights,
)
from aib.runs.files import read_metrics, read_settings, write_held_out
from aib.system.environment import environment
from aib.system.files import describe_write_error, locked, write_json, write_text, write_whole

SCHEMA = 3  # of checkpoint.pt
# Files of a run without a checkpoint, which a new start replaces.
STARTED = {CONFIG, METRICS, SPLIT, LOCK, "tensorboard", "wandb"}
# Settings that may change on resume. The number of processes decides who samples which noise and,
# on CPUs, BatchNorm's statistics, so it stays.
MAY_CHANGE = frozenset(MACHINE - {"devices", "nodes"})


class RunFolder:
    """The folder of a run that is being trained."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.checkpoint = folder / CHECKPOINT
        self.metrics = folder / METRICS

    def check_settings(self, settings: Settings) -> None:
        """Raise unless the run's settings give the same result as these."""
        self._check_same(read_settings(self.folder).to_dict(), settings.to_dict())

    def _check_same(self, stored: dict[str, Any], given: dict[str, Any]) -> None:
        changes = [
            f"{name} was {stored[name]} and is now {given.get(name)}"
            for name in stored
            if name not in MAY_CHANGE and stored[name] != given.get(name)
        ]
        if changes:
            raise AibError(f"{self.folder} is a run with other settings: {'; '.join(changes)}")

    @contextmanager
    def opened(
        self,
        model: Classifier,
        about: dict[str, dict[str, Any]],
        *,
        held_out: Collection[str | int] | None = None,
        resume: bool = False,
    ) -> Iterator[None]:
        """The folder made with its config.json or, to `resume`, compared with it; and locked.

        about: a section of config.json: `settings` of `aib train`, or `training` of `fit`, on data
            that only Python has, so that commands take the folder for a saved model.
        """
        if resume:
            require_checkpoint(self.checkpoint)
        else:
            check_unused(self.folder)
        with self.locked():
            if resume:
                self._check(model, about)
            else:
                self._begin(model, about, held_out)
            yield

    def _check(self, model: Classifier, about: dict[str, dict[str, Any]]) -> None:
        """Raise unless the run was begun with these settings and this model."""
        stored = read_config(self.folder / CONFIG)
        if not about.keys() <= stored.keys():
            raise AibError(f"resume {self.folder} with {how_to_resume(self.folder)}")
        given = json.loads(json.dumps(model.config() | about))
        for section in (*about, "model", "preprocessing"):
            self._check_same(stored[section], given[section])

    def _begin(
        self,
        model: Classifier,
        about: dict[str, dict[str, Any]],
        held_out: Collection[str | int] | None,
    ) -> None:
        """Write config.json and split.json in place of those of a start without a checkpoint."""
        check_unused(self.folder)  # another process may have trained meanwhile
        for name in (METRICS, SPLIT):
            (self.folder / name).unlink(missing_ok=True)
        config = model.config() | about | {"environment": environment()}
        write_json(self.folder / CONFIG, config)
        if held_out is not None:
            write_held_out(self.folder, held_out)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in the folder. A kill releases the lock."""
        busy = f"another process is training in {self.folder}; wait until it has ended"
        with locked(self.folder / LOCK, busy):
            for partial in self.folder.glob(f"{CHECKPOINT}.*.partial"):  # of a killed process
                partial.unlink(missing_ok=True)
            yield

    def log(self, row: dict[str, Any]) -> None:
        """Append one row to metrics.jsonl."""
        try:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            reason = describe_write_error(error, self.metrics)
            raise AibError(f"{self.metrics} could not be written: {reason}") from error

    def truncate_metrics(self, step: int) -> list[dict[str, Any]]:
        """Remove rows after `step`, which a resumed run writes again; return the others."""
        rows = [row for row in read_metrics(self.folder) if row["step"] <= step]
        write_text(self.metrics, "".join(json.dumps(row) + "\n" for row in rows))
        return rows

    def write_weights(self, model: Classifier) -> None:
        """Write model.safetensors, and into config.json the calibration fitted meanwhile."""
        config, learnt = read_config(self.folder / CONFIG), model.config()
        changed = {name: learnt[name] for name in ("preprocessing", "calibration")}
        write_json(self.folder / CONFIG, config | changed)
        write_weights(model, self.folder)


def check_unused(folder: Path) -> None:
    """Raise if the folder already holds a run, or anything else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise AibError(f"{folder} is a file, not a folder for a run")
    if (folder / WEIGHTS).exists():
        raise AibError(f"{folder} holds a finished run; choose another folder")
    if (folder / CHECKPOINT).exists():
        raise AibError(f"{folder} holds an interrupted run; resume it with {how_to_resume(folder)}")
    started = STARTED if (folder / LOCK).is_file() else ()
    if any(p.suffix != ".partial" and p.name not in started for p in folder.iterdir()):
        raise AibError(f"{folder} is not empty; choose another folder")


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a state of tensors and plain values, which can be loaded without trusting the file."""

    def write(partial: Path) -> None:
        with partial.open("wb") as file:  # given a path, torch hides the reason of a failure
            torch.save({"schema": SCHEMA, **state}, file)

    write_whole(path, write)


def require_checkpoint(path: Path) -> None:
    """Raise if there is no checkpoint yet."""
    if not path.is_file():
        raise AibError(f"{path.parent} has no {path.name}: there is nothing to resume")


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU; no code in the file is executed."""
    require_checkpoint(path)
    try:
        with ZipFile(path) as archive:  # torch.load checks no CRC
            if damaged := archive.testzip():
                raise ValueError(f"{damaged} is damaged")
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state["schema"] != SCHEMA:
            raise ValueError("it is of another version")
    except Exception as error:  # the unpickler raises many kinds for a damaged file
        why = f"cannot be read as a checkpoint ({first_line(error)})"
        raise AibError(f"{path} {why}: start a new run in another folder") from error
    return dict(state)
