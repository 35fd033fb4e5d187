"""The files of results/: runs with what the docs show of them, read and written.

A file of kind `runs` holds runs that belong together, one comparison. Benchmarks (`tools.bench`)
and the few other kinds are plain dictionaries.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from aib.config.paper import OTHER_FORM, paper_error
from aib.config.presets import PRESETS
from aib.errors import AibError
from aib.system.files import read_json, write_text

HIDDEN = {"seed", "data", "model", "channels_last", "compile", "precision"}


@dataclass(frozen=True)
class StoredRun:
    """One training run with its test errors and, if they were studied, its maps."""

    name: str
    data: str
    model: str
    recipe: Mapping[str, Any]  # the settings that differ from the defaults
    seed: int
    epochs: int
    minutes: float
    parameters: int | None
    reported: str  # which of the evaluations is the run's own
    evaluations: Mapping[str, Mapping[str, Any]]
    held_out: Mapping[str, Any] | None  # evaluation of the held-out images, if there were any
    training_error: float | None
    maps: Mapping[str, Any] | None  # `collect.summarise_study`
    environment: Mapping[str, Any]
    own_test_images: bool = False  # older runs on shapes: test images drawn with the run's own seed

    @property
    def evaluation(self) -> Mapping[str, Any]:
        """The reported evaluation."""
        return self.evaluations[self.reported]

    @property
    def error(self) -> float:
        """The reported top-1 error in percent."""
        return float(self.evaluation["top1_error"])

    @property
    def on_held_out(self) -> bool:
        """Whether the error is of held-out images, as in runs that choose settings."""
        return bool(self.evaluation["split"] == "val")

    @property
    def recipe_without_seed(self) -> dict[str, Any]:
        return {name: value for name, value in self.recipe.items() if name != "seed"}

    def paper_error(self, data: str | None = None) -> float | None:
        """The paper's error of this model; None for another form or for a part of the images."""
        if "holdout" in self.recipe:
            return None
        return paper_error(self.model, data or self.data, self.recipe)

    @cached_property
    def preset(self) -> str | None:
        """The preset with this recipe but for model and seed; one of this very model first."""
        own = self.recipe_without_seed | {"model": self.model, "init": None}
        found = []
        for name, preset in PRESETS.items():
            recipe = {**preset.recipe, "model": self.model, "init": None}
            recipe.pop("seed", None)
            if recipe == own:
                found.append(name)
        return min(found, key=lambda name: PRESETS[name].settings.model != self.model, default=None)


@dataclass(frozen=True)
class RunsFile:
    """Runs that belong together: one comparison."""

    name: str  # of the file, without its ending
    title: str
    note: str
    runs: tuple[StoredRun, ...]


@dataclass(frozen=True)
class Results:
    """Everything in results/, by the name of the file."""

    files: Mapping[str, RunsFile]
    benchmarks: Mapping[str, Mapping[str, Any]]
    others: Mapping[str, Mapping[str, Any]]  # sweeps and boxes

    @property
    def runs(self) -> list[StoredRun]:
        return [run for file in self.files.values() for run in file.runs]


def read_results(folder: Path) -> Results:
    """Read every JSON file of the folder."""
    files: dict[str, RunsFile] = {}
    benchmarks: dict[str, Mapping[str, Any]] = {}
    others: dict[str, Mapping[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        content = read_json(path) or {}
        if content.get("kind") == "runs":
            files[path.stem] = read_runs(path, content)
        elif "what" in content:
            benchmarks[path.stem] = content
        else:
            others[path.stem] = content
    return Results(files, benchmarks, others)


def read_runs(path: Path, content: Mapping[str, Any]) -> RunsFile:
    """Return the typed content of a file of runs."""
    try:
        runs = tuple(StoredRun(**run) for run in content["runs"])
        return RunsFile(path.stem, content["title"], content["note"], runs)
    except (KeyError, TypeError) as error:
        raise AibError(f"{path} is not a complete results file: {error}") from error


def write_runs(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of runs, one line per field of a run: short, and readable in a diff."""
    parts = [f" {json.dumps(k)}: {_listed(v)}" for k, v in content.items()]
    write_text(path, "{\n" + ",\n".join(parts) + "\n}\n")


def _listed(value: Any) -> str:
    """A list of objects has a line per field."""
    if not isinstance(value, list):
        return json.dumps(value)
    objects = (
        "  {\n" + ",\n".join(f"   {json.dumps(k)}: {_compact(v)}" for k, v in one.items()) + "\n  }"
        for one in value
    )
    return "[\n" + ",\n".join(objects) + "\n ]"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def by_recipe(runs: Iterable[StoredRun]) -> list[list[StoredRun]]:
    """Group runs that differ only in their seed."""
    groups: dict[str, list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(repr(sorted(run.recipe_without_seed.items())), []).append(run)
    return list(groups.values())


def recipe(run: StoredRun, compared: Sequence[StoredRun]) -> str:
    """The preset, or the options that differ between the compared runs of this model."""
    if run.preset:
        return f"`{run.preset}`"
    recipes = [other.recipe for other in compared if other.model == run.model]
    differs = {k for r in recipes for k in r if any(o.get(k) != r[k] for o in recipes)}
    shown = (OTHER_FORM | {"profile", "holdout"} | differs) - HIDDEN
    words = [
        name if value is True else f"{name} {value}"
        for name, value in run.recipe.items()
        if name in shown
    ]
    if run.data.startswith("folder:"):
        words.insert(0, run.data.split(":")[1])
    return ", ".join(words).replace("_", " ")


def data_set(data: str) -> str:
    """The data set a run belongs to: `cub200:crop` to cub200, every kind of shapes to shapes."""
    name = data.partition(":")[0]
    return "shapes" if name.startswith("shapes") else name
