"""The plan of a sweep: all of its runs and their settings, stored in sweep.json."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from aib.attention import SpatialAttention
from aib.choices import is_network_name
from aib.classifier import Classifier
from aib.data import ImageSet
from aib.data.augment import check_cutout
from aib.environment import environment
from aib.errors import AibError
from aib.files import read_json, write_json
from aib.latent import VariationalHead
from aib.options import OPTION_NEEDS
from aib.quantize import AnchorQuantizer
from aib.runs import describe_changes
from aib.settings import Settings
from aib.sweep.grid import LETTERS, Grid, check_grids, escape_for_folder, format_value, quick_grids
from aib.training.train import build_model, load_data, with_test_images
from aib.validation import parse_json

PLAN = "sweep.json"
SCHEMA = 1
RESOLVED = ("latent_dim", "num_anchors", "modulation")  # settings with a default per family

# The part of a model that a knob acts on.
NEEDS = {
    "beta": "latent",
    "beta_warmup": "latent",
    "lambda_q": "anchors",
    "lambda_c": "anchors",
    "revive_anchors": "anchors",
} | OPTION_NEEDS


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

    def points(self) -> list[dict[str, Any]]:
        """The settings changed at each point: one knob at a time, or all combinations."""
        axes = [[{grid.name: value} for value in grid.values] for grid in self.grids]
        if not self.product:
            return [change for axis in axes for change in axis]
        return [
            {name: value for change in changes for name, value in change.items()}
            for changes in itertools.product(*axes)
        ]

    def run(self, changes: dict[str, Any], seed: int) -> PlannedRun:
        """The run at a point. Its name holds only what differs from the preset, so the same
        settings have the same name in every panel and in every plan of this preset."""
        words = [
            f"{LETTERS.get(name, name)}={escape_for_folder(format_value(changes[name]))}"
            for name, value in self.base.to_dict().items()
            if name in changes and changes[name] != value
        ]
        settings = with_test_images(self.base.updated(**changes, seed=seed))
        return PlannedRun(",".join(words) or "base", settings)

    def find(self, name: str) -> PlannedRun:
        """The run with this folder name."""
        found = next((run for run in self.runs if run.name == name), None)
        if found is None:
            raise AibError(f"the sweep has no run {name!r}")
        return found

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
            differences = describe_changes(read_plan(folder).base, self.base, frozenset({"seed"}))
            if differences:
                raise AibError(
                    f"{folder} is a sweep of other settings: {differences}; choose another --out"
                )
        elif folder.exists() and not _is_free(folder):
            raise AibError(f"{folder} exists and is not a sweep; choose another --out")
        write_json(path, self.to_dict())


def _is_free(folder: Path) -> bool:
    """Whether the folder holds only what a killed first write may have left."""
    return folder.is_dir() and all(path.suffix == ".partial" for path in folder.iterdir())


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
    if seeds < 1:
        raise AibError(f"--seeds must be at least 1, not {seeds}")
    if base.devices * base.nodes > 1:
        raise AibError("each run of a sweep uses one device: leave out --devices and --nodes")
    if grids or not quick:
        check_grids(grids)
    images = load_data(with_test_images(base), base.measured_split)
    model = _without_weights(base, images)
    names = {grid.name for grid in grids}
    if not {"model", "data", "profile"} & names:
        # Write out what the family and the profile decide, so that a grid's value can be compared
        # with the preset's own.
        known = {name: model.recipe[name] for name in RESOLVED if name in model.recipe}
        base = base.updated(**known)
    if not grids:
        grids = [grid for grid in quick_grids(base) if not _missing_part(model, grid)]
        check_grids(grids)
    for grid in () if "model" in names else grids:
        if part := _missing_part(model, grid):
            raise AibError(f"{base.model} has no {part}: {grid.knob} changes nothing")
    plan = Plan(preset, base, tuple(grids), product, tuple(range(base.seed, base.seed + seeds)))
    _validate(plan, images)
    return plan


def _missing_part(model: Classifier, grid: Grid) -> str:
    """The part that this knob acts on, if the model does not have it."""
    need = NEEDS.get(grid.name, "")
    part = {"latent": VariationalHead, "anchors": AnchorQuantizer}.get(need, SpatialAttention)
    has_part = any(isinstance(module, part) for module in model.modules())
    return "" if not need or has_part else need


def _validate(plan: Plan, images: ImageSet) -> None:
    """Build each different model without weights, so that a bad value is an error now."""
    built = {plan.base}
    for run in plan.runs:
        s = run.settings
        if s.augment and s.data == plan.base.data:
            check_cutout(s.cutout, images.preprocessing.image_size)
        # The model does not depend on these.
        shape = replace(s, seed=plan.base.seed, beta=plan.base.beta, data=plan.base.data)
        if shape not in built:
            built.add(shape)
            _without_weights(shape, images)


def _without_weights(settings: Settings, images: ImageSet) -> Classifier:
    """The model on the meta device: no random numbers and no memory.

    A network by name is built as it is, since a pass through it shows where its layers lie.
    """
    settings = replace(settings, init=None)
    if is_network_name(settings.model):
        return build_model(settings, images, resume=True)
    with torch.device("meta"):
        return build_model(settings, images)
