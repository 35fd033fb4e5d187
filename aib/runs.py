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
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import torch
from filelock import FileLock, Timeout

from aib.classifier import Classifier
from aib.data import ImageSet, has_split, load, same_images
from aib.errors import AibError
from aib.evaluate import fit_classes
from aib.files import read_json, sha256, why_not, write_json, write_whole
from aib.pretrained import from_pretrained
from aib.settings import MACHINE, Settings
from aib.training.checkpoint import load_checkpoint, save_checkpoint
from aib.version import __version__
from aib.weights import CONFIG, WEIGHTS, read_config, write_weights

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
        config = model.config() | {
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
                f"no space left in {self.folder} for this run: it writes {needed / 1e6:,.1f} MB "
                f"and {free / 1e6:,.1f} MB are free; make room there or choose another --out"
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


def train_seconds(folder: Path) -> float:
    """Seconds of training that count; the clock of metrics.jsonl starts anew at each resume."""
    clock = [row["seconds"] for row in read_metrics(folder) if "seconds" in row]
    ends = [now for now, after in zip(clock, [*clock[1:], 0.0], strict=True) if after < now]
    return sum(ends)


def environment() -> dict[str, Any]:
    """Versions and hardware, for every result to carry."""
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


@dataclass(frozen=True)
class Opened:
    """A run or a saved model, loaded."""

    folder: Path
    label: str  # tells it from the others
    name: str  # of the model
    model: Classifier
    settings: Settings | None  # None for a saved model that is not a run

    @property
    def checksum(self) -> str:
        """SHA-256 of the weights."""
        return sha256(self.folder / WEIGHTS)


def open_runs(folders: tuple[Path, ...], device: str | None = None) -> list[Opened]:
    """Load the runs, each with a label of its own."""
    missing = [folder for folder in folders if not (folder / CONFIG).is_file()]
    if missing:
        raise AibError(f"{missing[0]} is not a run: it has no {CONFIG}")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise AibError("the same run is named twice")
    names = [folder.resolve().name for folder in folders]
    where = pick_device(device)
    opened = []
    for folder, name in zip(folders, names, strict=True):
        config = read_config(folder / CONFIG)
        model = from_pretrained(folder).to(where)
        opened.append(
            Opened(
                folder=folder,
                label=name if names.count(name) == 1 else str(folder),
                name=model_name(model),
                model=model,
                settings=read_settings(folder) if "settings" in config else None,
            )
        )
    return opened


def model_name(model: Classifier) -> str:
    """The name it was created by, or what it is."""
    return str(model.recipe.get("name", type(model).__name__))


def pick_device(name: str | None) -> torch.device:
    """The one named, or the best there is."""
    here = torch.cuda.is_available()
    try:
        device = torch.device(name or ("cuda" if here else "cpu"))
    except RuntimeError as error:
        raise AibError(f"no device {name!r}; take cpu or cuda") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise AibError(f"models do not run on the device {name!r}; take cpu or cuda")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise AibError("there is no Apple GPU here; leave --device out or say --device cpu")
    if device.type == "cuda" and not here:
        raise AibError("there is no CUDA device here; leave --device out or say --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise AibError(f"there is no {name}: this machine has {torch.cuda.device_count()}")
    return device


def images_for(
    opened: Opened,
    data: str | None = None,
    split: str | None = None,
    root: str | None = None,
    like: Opened | None = None,
) -> ImageSet:
    """A run's own data or the data named, as its model takes it; the labels are the data's.

    Without a `split` the test images; where a folder has none, what its own run kept aside or,
    for any other run, all of it.

    `like` is the run whose seed and folders count: runs that are compared see the same images.
    """
    settings = (like or opened).settings
    name = data or (settings.data if settings else None)
    if name is None:
        raise AibError(f"{opened.folder} is a saved model, not a run: name its data with --data")
    if settings is not None and same_images(name, settings.data):
        _refuse_others_training(opened, like, split or settings.measured_split)
        data_set = load(
            name,
            split or settings.measured_split,
            root=root or settings.root,
            holdout=settings.holdout,
            seed=settings.seed,
        )
    else:
        split = split or ("test" if has_split(name, "test") else "train")
        data_set = load(name, split, root=root, holdout=0.1 if split == "val" else 0)
    return data_set.prepared_for(opened.model.preprocessing)


def _refuse_others_training(opened: Opened, like: Opened | None, split: str) -> None:
    """What one run kept aside, another run with another seed was trained on."""
    if split != "val" or like is None or opened.settings is None or like.settings is None:
        return
    mine, theirs = opened.settings, like.settings
    if (mine.seed, mine.holdout) != (theirs.seed, theirs.holdout):
        raise AibError(
            f"{opened.label} and {like.label} kept different images aside (seed or holdout "
            "differ): compare them on test images"
        )


def labelled_images(
    opened: Opened,
    data: str | None = None,
    split: str | None = None,
    root: str | None = None,
    like: Opened | None = None,
) -> ImageSet:
    """The same with labels that the model understands: its own, or else matched by name."""
    ways = dict(fit_classes(opened.model, images_for(opened, data, split, root, like)))
    return ways.get("own") or ways.get("matched") or ways["raw"]


FOLDER = Path(__file__).parent / "pretrained_models"


def packaged_models() -> dict[str, Path]:
    """Their folders by name."""
    if not FOLDER.is_dir():
        return {}
    found = sorted(path for path in FOLDER.iterdir() if path.is_dir())
    return {p.name: p for p in found if (p / CONFIG).is_file() and (p / WEIGHTS).is_file()}


def find_model(run: Path | None) -> Path:
    """The folder of a run, of a saved model or, without one, of the first packaged model.

    A packaged model's bare name will do as well.
    """
    known = packaged_models()
    if run is not None:
        return known.get(str(run), run) if not run.exists() else run
    if not known:
        raise AibError(
            "no pretrained model comes with this version; train one "
            "(`aib train shapes_tiny --out runs/demo`) and name it with --run runs/demo"
        )
    return next(iter(known.values()))
