"""The plan of a sweep: the settings of every run. Stored in sweep.json."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from aib.config.options import OPTION_NEEDS, ModelOptions
from aib.config.settings import MACHINE, Settings
from aib.config.validation import Count, check, parse_json
from aib.data import ImageSet
from aib.data.augment import check_cutout
from aib.errors import AibError
from aib.models.classifier import Classifier
from aib.models.registry import parts_of
from aib.runs.files import describe_changes, measured_split
from aib.sweep.grid import LETTERS, Grid, Value, check_grids, format_value, quick_grids
from aib.system.environment import environment
from aib.system.files import read_json, write_json
from aib.training.train import build_model, load_data, with_test_images

PLAN, LOCK = "sweep.json", "sweep.lock"  # the lock is held while a sweep runs
SCHEMA = 1
RESOLVED = ("latent_dim", "num_anchors", "modulation")  # settings with a default per family
ADDED = ("latent_dim", "num_anchors")  # settings that give a network the part that they act on

# The part of a model that a knob acts on.
NEEDS = {
    "beta": "latent",
    "beta_warmup": "latent",
    "lambda_area": "mask",
    "lambda_q": "anchors",
    "lambda_c": "anchors",
    "revive_anchors": "anchors",
} | OPTION_NEEDS


def _in_file_name(text: str) -> str:
    """Text as a part of a file name; it may hold a path, with bytes that are no text."""
    return quote(text, safe="-_+.", errors="surrogateescape")


@dataclass(frozen=True)
class PlannedRun:
    """One run: its settings and the point of the sweep that it belongs to."""

    point: str  # what differs from the preset, such as "beta=0.001"
    settings: Settings

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.point},seed={self.settings.seed}"


@dataclass(frozen=True)
class Plan:
    """All settings of a sweep."""

    preset: str
    base: Settings
    grids: tuple[Grid, ...]
    product: bool
    seeds: tuple[int, ...]

    @cached_property
    def runs(self) -> list[PlannedRun]:
        """Every run once, although panels may share it. All points come before the next seed, so
        that a sweep that is stopped early has all of its panels."""
        found = {}
        for seed, chosen in itertools.product(self.seeds, self.points()):
            run = self.run(chosen, seed)
            found[run.name] = run
        return list(found.values())

    def points(self) -> list[dict[str, Value]]:
        """The settings changed at each point: one knob at a time, or all combinations."""
        if not self.product:
            return [{grid.name: value} for grid in self.grids for value in grid.values]
        names = [grid.name for grid in self.grids]
        crossed = itertools.product(*(grid.values for grid in self.grids))
        return [dict(zip(names, values, strict=True)) for values in crossed]

    def run(self, changes: dict[str, Any], seed: int) -> PlannedRun:
        """The run at a point. Its name holds only what differs from the preset, so the same
        settings have the same name in every panel and in every plan of this preset."""
        words = [
            f"{LETTERS.get(name, name)}={_in_file_name(format_value(changes[name]))}"
            for name, value in self.base.to_dict().items()
            if name in changes and changes[name] != value
        ]
        settings = with_test_images(self.base.updated(**changes, seed=seed))
        return PlannedRun(",".join(words) or "base", settings)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: sweep.json."""
        return {
            "schema": SCHEMA,
            "preset": self.preset,
            "base": self.base.to_dict(),
            "grids": [asdict(grid) for grid in self.grids],
            "product": self.product,
            "seeds": list(self.seeds),
            "runs": {run.name: run.settings.to_dict() for run in self.runs},
            "environment": environment(),
        }

    def write(self, folder: Path) -> None:
        """Write sweep.json. It may replace a plan with other points, but not one that starts
        from other settings."""
        path = folder / PLAN
        if path.exists():
            base = read_plan(folder).base.to_dict()
            differences = describe_changes(base, self.base.to_dict(), frozenset({"seed", *MACHINE}))
            if differences:
                raise AibError(
                    f"{folder} is a sweep of other settings: {differences}; choose another --out"
                )
        check_folder(folder)
        write_json(path, self.to_dict())


def check_folder(folder: Path) -> None:
    """Raise an error unless the folder holds a sweep, or nothing."""
    if (folder / PLAN).exists() or not folder.exists():
        return
    if not folder.is_dir() or any(
        file.suffix != ".partial" and file.name != LOCK for file in folder.iterdir()
    ):
        raise AibError(f"{folder} exists and is not a sweep; choose another --out")


def read_plan(folder: Path) -> Plan:
    """Read the plan in a sweep's folder."""
    found = read_json(folder / PLAN)
    if found is None:
        raise AibError(f"{folder} is not a sweep: it has no {PLAN}")
    plan: Plan = parse_with_base(Plan, found, folder / PLAN)
    return plan


def parse_with_base(kind: Any, found: dict[str, Any], path: Path) -> Any:
    """A dataclass from one of a sweep's JSON files; its field `base` holds settings."""
    base = found.get("base")
    if found.get("schema") != SCHEMA or not isinstance(base, dict):
        raise AibError(f"{path} is damaged, or was written by another version of aib")
    return parse_json(kind, found | {"base": Settings.from_dict(base, path)}, path)


def make_plan(
    preset: str,
    base: Settings,
    grids: Sequence[Grid] = (),
    *,
    seeds: int = 1,
    product: bool = False,
    quick: bool = False,
) -> Plan:
    """Resolve the family's defaults, and validate every point before any is trained."""
    check("seeds", seeds, Count)
    if base.devices * base.nodes > 1:
        raise AibError("each run of a sweep uses one device: leave out --devices and --nodes")
    if base.evaluator:
        raise AibError("a sweep trains models; train an evaluator with `aib train --evaluator`")
    if grids or not quick:
        check_grids(grids)
    names = {grid.name for grid in grids}
    if "model" in names and (base.backbone is not None or "backbone" in names):
        raise AibError("a backbone is a network in place of the model: vary one of them")
    images = load_data(with_test_images(base), measured_split(base.data))
    model = _without_weights(base, images)
    if not {"model", "data", "profile", "masked"} & names:
        # Write out what the family and the profile decide, so that a grid's value can be compared
        # with the preset's own.
        known = {name: model.recipe[name] for name in RESOLVED if name in model.recipe}
        base = base.updated(**known)
        grids = [_resolved(grid, base, images) for grid in grids]
    if not grids:
        grids = [grid for grid in quick_grids(base) if not _missing_part(model, grid)]
        check_grids(grids)
    varied = {"model", "masked", *(ADDED if model.recipe["kind"] == "attached" else ())}
    for grid in () if varied & names else grids:
        if part := _missing_part(model, grid):
            raise AibError(f"{base.model} has no {part}: {grid.knob} changes nothing")
    plan = Plan(preset, base, tuple(grids), product, tuple(range(base.seed, base.seed + seeds)))
    _validate(plan, model, images)
    return plan


def _resolved(grid: Grid, base: Settings, images: ImageSet) -> Grid:
    """The grid with the family's default in place of None, which stands for it."""
    if grid.name not in RESOLVED or None not in grid.values:
        return grid
    default = _without_weights(base.updated(**{grid.name: None}), images).recipe.get(grid.name)
    values = (default if value is None else value for value in grid.values)
    return Grid(grid.name, tuple(dict.fromkeys(values)))


def _missing_part(model: Classifier, grid: Grid) -> str:
    """The part that this knob acts on, if the model does not have it."""
    need = NEEDS.get(grid.name, "")
    return "" if not need or parts_of(model)[need] else need


def _validate(plan: Plan, model: Classifier, images: ImageSet) -> None:
    """Load the images that each run is measured on and build each different model without weights:
    a bad value is an error now, and so is a model that two points would train. `model` is the
    base's."""
    built, loaded = {plan.base: model.recipe}, {plan.base.data: images}
    found: dict[Any, PlannedRun] = {}
    for run in plan.runs:
        s = run.settings
        if s.data not in loaded:  # one image stands for all
            loaded[s.data] = load_data(s, measured_split(s.data)).subset(torch.arange(1))
        images = loaded[s.data]
        if s.augment:
            check_cutout(s.cutout, images.preprocessing.image_size)
        # The model does not depend on these.
        shape = replace(s, seed=plan.base.seed, beta=plan.base.beta)
        if shape not in built:
            built[shape] = _without_weights(shape, images).recipe
        # The recipe holds options and layer, for most options with the default in place of None.
        others = replace(s, options=ModelOptions(), at=None)
        first = found.setdefault((str(built[shape]), others), run)
        if first is not run:
            raise AibError(
                f"{first.point} and {run.point} are the same model: leave one of them out, or name "
                "values in place of none"
            )


def _without_weights(settings: Settings, images: ImageSet) -> Classifier:
    """The model on the meta device: no random numbers and no memory.

    A network by name is built as it is, since a pass through it shows where its layers lie.
    """
    settings = replace(settings, init=None, freeze=())
    if settings.trains_network:
        return build_model(settings, images, resume=True)
    with torch.device("meta"):
        return build_model(settings, images)
