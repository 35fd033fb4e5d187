"""What the files in a run's folder say: settings, metrics, evaluations, and whose images it saw."""

import json
import reprlib
import warnings
from pathlib import Path
from typing import Any

from filelock import FileLock

from aib.config.settings import Settings
from aib.data import ImageSet
from aib.data.load import parse_name
from aib.errors import AibError, AibWarning
from aib.models.weights import CONFIG, EVALUATION, METRICS, how_to_resume, read_config
from aib.system.files import describe_write_error, quoted, read_json, write_text

EVALUATION_LOCK = ".evaluation.lock"  # held while an evaluation is added


def read_settings(folder: Path) -> Settings:
    """The settings in a run's config.json."""
    path = folder / CONFIG
    if not path.is_file():
        raise AibError(f"{folder} is not a run: it has no {CONFIG}")
    config = read_config(path)
    if not isinstance(config.get("settings"), dict):
        what = "it is a saved model, not a run"
        if "training" in config:
            what = f"resume it in Python, with {how_to_resume(folder)}"
        raise AibError(f"{path} has no settings of `aib train`: {what}")
    return Settings.from_dict(config["settings"], path)


def read_data_files(folder: Path) -> dict[str, Any]:
    """The folder of a run's images, and the number and hash of the files that were split.

    Empty for known data sets, for runs of earlier versions and on the Hub.
    """
    path = folder / CONFIG
    found = read_config(path).get("data_files") if path.is_file() else None
    return found if isinstance(found, dict) else {}


def check_here(folder: Path, name: str, source: str, *, resume: bool = False) -> None:
    """Raise if `name` is the relative path of the run's images and there is no such folder here.

    Warn if there is another one, and that of the training is still where it was.
    """
    kind, path, _ = parse_name(name)
    if kind != "folder" or path.is_absolute():
        return
    where = read_data_files(folder).get("folder", "/full/path")
    named = f"name the images with --data {quoted(f'folder:{where}')}"
    advice = f"resume it from there (the images were in {where})" if resume else named
    if path.is_dir() and Path(where).is_dir() and not path.samefile(where):
        warnings.warn(
            f"{source} was trained on {where}, not on {path.resolve()}: if its images are others, "
            f"{advice}",
            AibWarning,
            stacklevel=2,
        )
    if not path.is_dir():
        raise AibError(
            f"{path} is not a folder: it is relative to where the training of {source} ran; "
            f"{advice}"
        )


def check_files(folder: Path, data: ImageSet) -> None:
    """Raise if the data's split is drawn from other files than the run's own."""
    then, now = read_data_files(folder), data.drawn_from
    if now is not None and then.get("sha256") not in (None, now["sha256"]):
        raise AibError(
            f"{data.name} has changed since the training of {folder} ({then.get('files')} image "
            f"files then, {now['files']} now, and their names or classes differ): which images "
            "were held out is no longer known; restore the files, or name other images with --data"
        )


def describe_changes(old: dict[str, Any], new: dict[str, Any], ignore: frozenset[str]) -> str:
    """The settings that differ, for an error message; "" if none does."""
    changed = [name for name in old if name not in ignore and old[name] != new.get(name)]
    return "; ".join(f"{n} was {_short(old[n])} and is now {_short(new.get(n))}" for n in changed)


def _short(value: Any) -> Any:
    return reprlib.repr(value) if isinstance(value, list) else value


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
    path = folder / EVALUATION
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / EVALUATION_LOCK):
            text = json.dumps((read_json(path) or {}) | {name: evaluation}, indent=2) + "\n"
            write_text(path, text)
    except OSError as error:
        reason = describe_write_error(error, path)
        raise AibError(f"{path} could not be written: {reason}") from error
