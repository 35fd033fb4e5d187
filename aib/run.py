"""A run's folder: config.json, metrics.jsonl, checkpoint.pt, model.safetensors."""

import json
import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from aib.checkpoint import write_whole
from aib.classifier import Classifier
from aib.errors import AibError
from aib.pretrained import CONFIG, WEIGHTS, config_of, read_config, write_weights
from aib.settings import Settings

CHECKPOINT, METRICS, EVALUATION = "checkpoint.pt", "metrics.jsonl", "evaluation.json"


class Run:
    """One run's folder. Made by `create` (a new one) or `reopen` (an interrupted one)."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.checkpoint = folder / CHECKPOINT
        self.metrics = folder / METRICS

    @classmethod
    def create(cls, folder: Path, model: Classifier, settings: Settings) -> "Run":
        """Make the folder and its config. What is there already is never overwritten."""
        refuse_used(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AibError(f"the folder {folder} cannot be made: {error.strerror}") from error
        config = config_of(model) | {
            "settings": settings.to_dict(),
            "environment": environment(),
        }
        write_whole(
            folder / CONFIG, lambda path: path.write_text(json.dumps(config, indent=2) + "\n")
        )
        return cls(folder)

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

    def log(self, row: dict[str, Any]) -> None:
        """Append one line to metrics.jsonl."""
        try:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise AibError(f"{self.metrics} could not be written: {error.strerror}") from error

    def cut_metrics(self, step: int) -> None:
        """Forget lines after `step`: a resumed run writes them again."""
        rows = [row for row in read_metrics(self.folder) if row["step"] <= step]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        write_whole(self.metrics, lambda path: path.write_text(text))

    def write_weights(self, model: Classifier) -> None:
        """model.safetensors: what evaluation and explanation read."""
        write_whole(self.folder / WEIGHTS, lambda path: write_weights(model, path))

    def write_evaluation(self, name: str, figures: dict[str, Any]) -> None:
        """Add the figures of one evaluation to evaluation.json under `name`."""
        path = self.folder / EVALUATION
        known = read_json(path) or {}
        text = json.dumps(known | {name: figures}, indent=2) + "\n"
        write_whole(path, lambda partial: partial.write_text(text))


def refuse_used(folder: Path) -> None:
    """One clear sentence if the folder already holds a run, or anything else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise AibError(f"{folder} is a file, not a folder for a run")
    if (folder / WEIGHTS).exists():
        raise AibError(f"{folder} holds a finished run; choose another --out")
    if (folder / CONFIG).exists():
        raise AibError(
            f"{folder} holds an interrupted run; go on with `aib train --resume {folder}` or "
            "choose another --out"
        )
    if any(path.suffix != ".partial" for path in folder.iterdir()):  # left by a kill
        raise AibError(f"{folder} is not empty; choose another --out")


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
