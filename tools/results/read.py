"""Read the files of results/ into typed records: runs, benchmarks, sweeps and boxes."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from aib.config.paper import OTHER_FORM, paper_error
from aib.config.presets import PRESETS
from aib.errors import AibError
from aib.evaluation.error import Evaluation
from aib.interpret.results import Study
from aib.sweep.results import SweepResults
from aib.system.files import read_json

COPIED = ("name", "data", "model", "recipe", "seed", "epochs", "minutes", "reported", "environment")
OLD_KEYS = {"figures": "metrics", "deviation": "std"}  # of sweeps before the first release


@dataclass(frozen=True)
class StoredRun:
    """One training run with all that was measured of it."""

    name: str
    data: str
    model: str
    recipe: Mapping[str, Any]  # the settings that differ from the defaults
    seed: int
    epochs: int
    minutes: float
    reported: str  # which of the evaluations is the run's own
    evaluations: Mapping[str, Evaluation]
    held_out: Evaluation | None
    training_error: float | None
    study: Study | None  # of `aib interpret`
    environment: Mapping[str, Any]
    own_test_images: bool  # older runs on shapes: test images sampled with the run's own seed

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "StoredRun":
        return cls(
            **{name: found[name] for name in COPIED},
            evaluations={k: Evaluation(**e) for k, e in found["evaluations"].items()},
            held_out=Evaluation(**found["held_out"]) if found["held_out"] else None,
            training_error=found.get("training_error"),
            study=Study.from_dict(found["interpret"]) if found["interpret"] else None,
            own_test_images="test_images" in found,
        )

    @property
    def evaluation(self) -> Evaluation:
        """On test images of the data set that it was trained on, or on held-out ones."""
        return self.evaluations[self.reported]

    @property
    def on_held_out(self) -> bool:
        """Whether it was evaluated on held-out images only, as runs that choose settings are."""
        return self.evaluation.split == "val"

    @property
    def error(self) -> float:
        return self.evaluation.top1_error

    @property
    def recipe_without_seed(self) -> dict[str, Any]:
        return {name: value for name, value in self.recipe.items() if name != "seed"}

    def paper_error(self, data: str | None = None) -> float | None:
        """The paper's error for this model; None beside another form or a held-out part.

        The paper trained on all training images.
        """
        if "holdout" in self.recipe:
            return None
        return paper_error(self.model, data or self.data, self.recipe)

    @cached_property
    def preset(self) -> str | None:
        """The preset whose recipe this is, but for the model, the seed and the file of --init.

        A preset of this very model goes first.
        """
        own = self.recipe_without_seed | {"model": self.model}
        own.pop("init", None)
        found = []
        for name, preset in PRESETS.items():
            recipe = {**preset.recipe, "model": self.model}
            recipe.pop("seed", None)
            if recipe == own:
                found.append(name)
        return min(found, key=lambda n: PRESETS[n].settings.model != self.model, default=None)


@dataclass(frozen=True)
class RunsFile:
    """Runs that belong together: one comparison."""

    name: str  # of the file
    title: str
    note: str
    runs: tuple[StoredRun, ...]


@dataclass(frozen=True)
class Results:
    """Everything in results/, by the kind of file."""

    runs: Mapping[str, RunsFile]
    benchmarks: Mapping[str, Mapping[str, Any]]
    sweeps: Mapping[str, SweepResults]
    boxes: Mapping[str, Mapping[str, Any]]  # of `tools.cam`

    @property
    def all_runs(self) -> list[StoredRun]:
        return [run for file in self.runs.values() for run in file.runs]


def read_results(folder: Path) -> Results:
    """Read every JSON file of the folder."""
    runs: dict[str, RunsFile] = {}
    benchmarks: dict[str, Mapping[str, Any]] = {}
    sweeps: dict[str, SweepResults] = {}
    boxes: dict[str, Mapping[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        found = read_json(path) or {}
        if found.get("kind") == "runs":
            runs[path.name] = _read_runs(path, found)
        elif "what" in found:
            benchmarks[path.name] = found
        elif "panels" in found:
            sweeps[path.name] = SweepResults.from_dict(rename_old_keys(found), path)
        elif "boxes" in found:
            boxes[path.name] = found
        else:
            raise AibError(
                f"{path} is not a file of tools.results collect, tools.cam, aib bench or aib sweep"
            )
    if not (runs or benchmarks or sweeps or boxes):
        raise AibError(f"no results in {folder}")
    return Results(runs, benchmarks, sweeps, boxes)


def rename_old_keys(value: Any) -> Any:
    """JSON with the keys of older sweeps renamed."""
    if isinstance(value, dict):
        return {OLD_KEYS.get(key, key): rename_old_keys(item) for key, item in value.items()}
    return [rename_old_keys(item) for item in value] if isinstance(value, list) else value


def _read_runs(path: Path, found: Mapping[str, Any]) -> RunsFile:
    try:
        runs = tuple(StoredRun.from_dict(run) for run in found["runs"])
        return RunsFile(path.name, found["title"], found["note"], runs)
    except KeyError as error:
        raise AibError(f"{path} is not a complete results file: it has no {error}") from error
    except (TypeError, AttributeError) as error:
        raise AibError(f"{path} is not a complete results file: {error}") from error


def by_recipe(runs: Iterable[StoredRun]) -> list[list[StoredRun]]:
    """Group runs that differ only in their seed."""
    groups: dict[str, list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(repr(sorted(run.recipe_without_seed.items())), []).append(run)
    return list(groups.values())


def options(run: StoredRun, compared: Iterable[StoredRun], brief: bool = False) -> str:
    """The options that change the model, and those that differ between the compared runs.

    In brief, only those that differ between runs of the same model whose maps were measured.
    """
    hidden = {"seed", "data", "model", "channels_last", "compile"}
    always: Set[str] = set()
    if brief:
        compared = [other for other in compared if other.model == run.model and other.study]
    else:
        hidden |= {"epochs"}
        always = OTHER_FORM | {"profile", "dropout", "cutout", "holdout"}
    recipes = [other.recipe for other in compared]
    differs = {k for r in recipes for k in r if any(o.get(k) != r[k] for o in recipes)}
    return named_options(run, (always | differs) - hidden)


def named_options(run: StoredRun, names: Set[str]) -> str:
    """Those of these options that the run's recipe has, with their values."""
    found = [
        name if value is True else f"{name} {value}"
        for name, value in run.recipe.items()
        if name in names
    ]
    return ", ".join(found).replace("_", " ")


def data_set(data: str) -> str:
    """The data set a run belongs to: `cub200:crop` to cub200, every kind of shapes to shapes."""
    name = data.partition(":")[0]
    return "shapes" if name.startswith("shapes") else name
