"""What the files in a run's folder say: settings, split, metrics and evaluations."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from aib.config.settings import Settings
from aib.data import has_split
from aib.errors import AibError
from aib.models.weights import CONFIG, EVALUATION, METRICS, SPLIT, how_to_resume, read_config
from aib.system.files import read_json, write_json

EVALUATION_LOCK = ".evaluation.lock"  # held while an evaluation is added


def read_settings(folder: Path) -> Settings:
    """The settings in a run's config.json."""
    path = folder / CONFIG
    config = read_config(path)
    if not isinstance(config.get("settings"), dict):
        what = "it is a saved model, not a run"
        if "training" in config:
            what = f"resume it in Python, with {how_to_resume(folder)}"
        raise AibError(f"{path} has no settings of `aib train`: {what}")
    return Settings.from_dict(config["settings"], path)


def read_held_out(folder: Path) -> list[str | int] | None:
    """Keys of the images that a run held out of its training images; None without any."""
    path = folder / SPLIT
    split = read_json(path)
    if split is None:
        return None
    keys = split.get("held_out")
    if not isinstance(keys, list) or not all(isinstance(key, str | int) for key in keys):
        raise AibError(f"{path} does not hold the list of the images that were held out")
    return keys


def write_held_out(folder: Path, keys: Collection[str | int]) -> None:
    """Record which images a run holds out."""
    write_json(folder / SPLIT, {"held_out": list(keys)}, indent=None)


def measured_split(data: str) -> str:
    """The split that commands measure on by default: `val` where there is no test set."""
    return "test" if has_split(data, "test") else "val"


def final_split(s: Settings) -> str:
    """The split that a training ends with: held-out images if there are any, else test."""
    return "val" if s.holdout else measured_split(s.data)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl, without a last line that a kill cut short."""
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
            raise AibError(f"{path}: line {len(rows) + 1} is not a row of metrics; remove it")
        rows.append(row)
    return rows


def train_seconds(folder: Path) -> float:
    """Seconds of training in total."""
    return max((row["seconds"] for row in read_metrics(folder) if "seconds" in row), default=0.0)


def write_evaluation(folder: Path, name: str, evaluation: dict[str, Any]) -> None:
    """Add one evaluation to evaluation.json under `name`; other processes may do so, too."""
    from filelock import FileLock

    path = folder / EVALUATION
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / EVALUATION_LOCK):
        write_json(path, (read_json(path) or {}) | {name: evaluation})
