"""A run's folder: config.json, metrics.jsonl, checkpoint.pt, model.safetensors."""

import json
import os
import platform
import reprlib
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import torch
from filelock import FileLock, Timeout

from aib.checkpoint import load_checkpoint, save_checkpoint, why_not, write_whole
from aib.classifier import Classifier
from aib.errors import AibError
from aib.pretrained import CONFIG, WEIGHTS, config_of, read_config, write_weights
from aib.settings import MACHINE, Settings

CHECKPOINT, METRICS, EVALUATION = "checkpoint.pt", "metrics.jsonl", "evaluation.json"
LOCK = ".lock"
ROW = 1000  # bytes, about: a line of metrics.jsonl
# What a run that has no checkpoint yet leaves in its folder.
STARTED = {CONFIG, METRICS, LOCK, "tensorboard", "wandb"}


class Run:
    """One run's folder. Made by `create` (a new one) or `reopen` (an interrupted one)."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.checkpoint = folder / CHECKPOINT
        self.metrics = folder / METRICS
        self._lock_file: IO[bytes] | None = None  # open while the lock is held

    @classmethod
    def create(cls, folder: Path, model: Classifier, settings: Settings) -> "Run":
        """Make the folder and its config. A run that is there already is never overwritten."""
        run = cls(folder)
        run.make_folder()
        run.write_config(model, settings)
        return run

    def make_folder(self) -> None:
        """Make the folder if it is free."""
        refuse_used(self.folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AibError(f"the folder {self.folder} cannot be made: {error.strerror}") from error

    def write_config(self, model: Classifier, settings: Settings) -> None:
        """Begin: config.json, and nothing of an earlier start that has no checkpoint."""
        refuse_used(self.folder)
        self.metrics.unlink(missing_ok=True)
        config = config_of(model) | {
            "settings": settings.to_dict(),
            "environment": environment(),
        }
        text = json.dumps(config, indent=2) + "\n"
        write_whole(self.folder / CONFIG, lambda path: path.write_text(text))
        self.config = _flat(json.loads(text))

    @classmethod
    def reopen(cls, folder: Path, settings: Settings) -> "Run":
        """An interrupted run of the same settings."""
        differences = different(read_settings(folder), settings)
        if differences:
            raise AibError(f"{folder} is a run of another configuration: {differences}")
        return cls(folder)

    def update_preprocessing(self, model: Classifier) -> None:
        """Write the model's preprocessing to config.json, unless it is there already."""
        path, wanted = self.folder / CONFIG, model.preprocessing.to_dict()
        config = read_config(path)
        if config["preprocessing"] != wanted:
            write_json(path, config | {"preprocessing": wanted})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in the folder. The system unlocks it after a kill."""
        lock = FileLock(self.folder / LOCK)
        try:
            lock.acquire(blocking=False)
        except Timeout as error:
            raise AibError(
                f"another process is training in {self.folder}; wait until it has ended"
            ) from error
        except OSError as error:
            raise AibError(f"{self.folder} cannot be locked: {error.strerror}") from error
        try:
            with (self.folder / LOCK).open("rb") as self._lock_file:
                yield
        finally:
            self._lock_file = None
            lock.release()

    def check_there(self) -> None:
        """Refuse to write into a folder that was removed, or replaced by that of another run."""
        mine, lock = self._lock_file, self.folder / LOCK
        replaced = (
            mine is not None
            and lock.exists()
            and not os.path.samestat(os.fstat(mine.fileno()), lock.stat())
        )
        if replaced or not (self.folder / CONFIG).is_file():
            raise AibError(
                f"the run's folder {self.folder} was removed during the run; start again with "
                "another --out"
            )

    def check_space(self, checkpoint: int, weights: int, rows: int) -> None:
        """Refuse to begin what the disk cannot hold, given the bytes of the files, and lines."""
        self.check_there()
        # A new checkpoint is written beside the old one.
        needed = 2 * checkpoint + weights + ROW * rows
        if self.checkpoint.is_file():
            needed -= self.checkpoint.stat().st_size
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise AibError(
                f"no space left in {self.folder} for this run: it writes {needed / 1e6:,.0f} MB "
                f"and {free / 1e6:,.0f} MB are free; make room there or choose another --out"
            )

    def log(self, row: dict[str, Any]) -> None:
        """Append one line to metrics.jsonl."""
        self.check_there()
        try:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            reason = why_not(error, self.metrics)
            raise AibError(f"{self.metrics} could not be written: {reason}") from error

    def save(self, state: dict[str, Any]) -> None:
        """checkpoint.pt, with a copy of what config.json says."""
        self.check_there()
        save_checkpoint(self.checkpoint, state | {"config": json.dumps(self.config)})

    def load(self) -> dict[str, Any]:
        """The state that was saved, if config.json is still the one it was saved with."""
        state = load_checkpoint(self.checkpoint)
        try:
            there = dict(json.loads(state["config"]))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise AibError(f"{self.checkpoint} does not tell the settings of its run") from error
        here = self.config = _flat(read_config(self.folder / CONFIG))
        edited = [
            f"{name} {reprlib.repr(here.get(name))} in {CONFIG}, "
            f"{reprlib.repr(there.get(name))} in {CHECKPOINT}"
            for name in here | there
            if here.get(name) != there.get(name)
        ]
        if edited:
            raise AibError(
                f"{self.folder / CONFIG} was edited after the checkpoint was written: "
                f"{'; '.join(edited)}; put the old values back, or start a new run with --out"
            )
        return state

    @cached_property
    def config(self) -> dict[str, Any]:
        """What config.json said when the run began: by name, without the machine's settings."""
        return _flat(read_config(self.folder / CONFIG))

    def cut_metrics(self, step: int) -> None:
        """Forget lines after `step`: a resumed run writes them again."""
        rows = [row for row in read_metrics(self.folder) if row["step"] <= step]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self._write(self.metrics, lambda path: path.write_text(text))

    def write_weights(self, model: Classifier) -> None:
        """model.safetensors: what evaluation and explanation read."""
        self._write(self.folder / WEIGHTS, lambda path: write_weights(model, path))

    def write_evaluation(self, name: str, figures: dict[str, Any]) -> None:
        """Add the figures of one evaluation to evaluation.json under `name`."""
        path = self.folder / EVALUATION
        known = read_json(path) or {}
        text = json.dumps(known | {name: figures}, indent=2) + "\n"
        self._write(path, lambda partial: partial.write_text(text))

    def _write(self, path: Path, write: Callable[[Path], Any]) -> None:
        self.check_there()
        write_whole(path, write)


def refuse_used(folder: Path) -> None:
    """One clear sentence if the folder already holds a run, or anything else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise AibError(f"{folder} is a file, not a folder for a run")
    if (folder / WEIGHTS).exists():
        raise AibError(f"{folder} holds a finished run; choose another --out")
    if (folder / CHECKPOINT).exists():
        raise AibError(
            f"{folder} holds an interrupted run; go on with `aib train --resume {folder}` or "
            "choose another --out"
        )
    free = STARTED if _is_run(folder) else {LOCK}
    if any(p.suffix != ".partial" and p.name not in free for p in folder.iterdir()):
        raise AibError(f"{folder} is not empty; choose another --out")


def _is_run(folder: Path) -> bool:
    try:
        return bool(read_settings(folder))
    except AibError:
        return False


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Settings under their own names, the rest as section.name."""
    flat = {k: v for k, v in config.get("settings", {}).items() if k not in MACHINE}
    for section in ("model", "preprocessing"):
        flat |= {f"{section}.{k}": v for k, v in config[section].items()}
    return flat


def different(stored: Settings, given: Settings, but: tuple[str, ...] = ()) -> str:
    """In words, which settings differ; "" if none does. Those named in `but` may."""
    there, here = stored.to_dict(), given.to_dict()
    names = [name for name in there if name not in but and there[name] != here[name]]
    return "; ".join(f"{name} {there[name]} there, {here[name]} here" for name in names)


def read_settings(folder: Path) -> Settings:
    """The settings of a run."""
    path = folder / CONFIG
    if not path.is_file():
        raise AibError(f"{folder} is not a run: it has no {CONFIG}")
    config = read_config(path)
    if not isinstance(config.get("settings"), dict):
        raise AibError(f"{path} has no settings: it is a saved model, not a run")
    return Settings.from_dict(config["settings"], path)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl. A last line cut short by a kill is left out."""
    path = folder / METRICS
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            break  # only the line being written at the kill can be incomplete
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            raise AibError(f"{path}: line {len(rows) + 1} is not a row of figures; take it out")
        rows.append(row)
    return rows


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if there is no such file."""
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AibError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise AibError(f"{path} does not hold a JSON object")
    return value


def write_json(path: Path, value: Any, indent: int = 2) -> None:
    """The inverse of `read_json`, whole or not at all."""
    text = json.dumps(value, indent=indent, allow_nan=False) + "\n"
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def train_seconds(folder: Path) -> float:
    """Seconds of training that count; the clock of metrics.jsonl starts anew at each resume."""
    clock = [row["seconds"] for row in read_metrics(folder) if "seconds" in row]
    ends = [now for now, after in zip(clock, [*clock[1:], 0.0], strict=True) if after < now]
    return sum(ends)


def environment() -> dict[str, Any]:
    """Versions and hardware, for every result to carry."""
    from aib import __version__  # here: aib itself is made of modules like this one

    packages = ("torch", "lightning", "numpy")
    cuda = torch.cuda.is_available()
    return {
        "python": platform.python_version(),
        "aib": __version__,
        **{package: version(package) for package in packages},
        "device": torch.cuda.get_device_name() if cuda else platform.machine() + " CPU",
        "threads": torch.get_num_threads(),
        "command": command_line(),
    }


def command_line() -> str | None:
    """How this process was started, if it was by `aib`, `python -m aib` or an example."""
    program = Path(sys.argv[0])
    if program.name == "aib" or program == Path(__file__).parent / "__main__.py":
        return shlex.join(["aib", *sys.argv[1:]])
    if program.resolve().parent.name == "examples":
        return shlex.join(["python", f"examples/{program.name}", *sys.argv[1:]])
    return None
