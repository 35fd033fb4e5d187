"""Which runs a sweep is made of: sweep.json in its folder."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from aib.attention import SpatialAttention
from aib.bottleneck import AIB
from aib.classifier import Classifier
from aib.data import ImageSet
from aib.data.augment import check_cutout
from aib.environment import environment
from aib.errors import AibError
from aib.files import write_json
from aib.latent import VariationalHead
from aib.options import OPTION_NEEDS
from aib.quantize import AnchorQuantizer
from aib.runs import describe_changes
from aib.settings import Settings
from aib.sweep.grid import LETTERS, Grid, check_grids, quick_grids, safe, written
from aib.training.train import build_model, load_data, with_test_images

PLAN = "sweep.json"
SCHEMA = 1
RESOLVED = ("latent_dim", "num_anchors", "modulation")  # settings that may be left open
MOST_SEEDS, MOST_RUNS = 1_000, 10_000  # more are a slip of the hand

# What a model has to have for a knob to matter.
NEEDS = {
    "beta": "latent",
    "beta_warmup": "latent",
    "lambda_q": "anchors",
    "lambda_c": "anchors",
    "revive_anchors": "anchors",
    "lambda_a": "attention",
} | OPTION_NEEDS


@dataclass(frozen=True)
class Planned:
    """One run."""

    point: str  # what differs from the preset, such as "beta=0.001"
    settings: Settings

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.point},seed={self.settings.seed}"


@dataclass(frozen=True)
class Plan:
    """A sweep, fully resolved."""

    preset: str
    base: Settings
    grids: tuple[Grid, ...]
    product: bool
    seeds: tuple[int, ...]

    @cached_property
    def runs(self) -> list[Planned]:
        """Every run once, though panels may share it. All points come before the next seed: a
        sweep that is stopped early has all of its panels."""
        found = {}
        for seed, chosen in itertools.product(self.seeds, self.points()):
            run = self.run(chosen, seed)
            found[run.name] = run
        return list(found.values())

    @property
    def asked(self) -> int:
        """How many runs the grids ask for, counted without making them."""
        counts = [len(grid.values) for grid in self.grids]
        return len(self.seeds) * (math.prod(counts) if self.product else sum(counts))

    def points(self) -> list[dict[str, Any]]:
        """The settings changed at each point: one knob at a time, or all combinations."""
        axes = [[{grid.name: value} for value in grid.values] for grid in self.grids]
        if not self.product:
            return [change for axis in axes for change in axis]
        return [
            {name: value for change in changes for name, value in change.items()}
            for changes in itertools.product(*axes)
        ]

    def run(self, changes: dict[str, Any], seed: int) -> Planned:
        """The run at a point. Its name says what differs from the preset, and nothing else: the
        same settings have the same name in every panel and in every plan of this preset."""
        words = [
            f"{LETTERS.get(name, name)}={safe(written(changes[name]))}"
            for name, value in self.base.to_dict().items()
            if name in changes and changes[name] != value
        ]
        settings = with_test_images(self.base.updated(**changes, seed=seed))
        return Planned(",".join(words) or "base", settings)

    def find(self, name: str) -> Planned:
        """A run by its folder's name."""
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
        """Into the sweep's folder. A plan with more or other points may replace this one; one
        that starts from other settings may not."""
        path = folder / PLAN
        if path.exists():
            differences = describe_changes(read_plan(folder).base, self.base, frozenset({"seed"}))
            if differences:
                raise AibError(
                    f"{folder} is a sweep of other settings: {differences}; choose another --out"
                )
        elif folder.exists() and not _is_free(folder):
            raise AibError(f"{folder} is there and is not a sweep; choose another --out")
        write_json(path, self.to_dict())


def _is_free(folder: Path) -> bool:
    """Nothing is in it but what a kill may have left of a first plan."""
    return folder.is_dir() and all(path.suffix == ".partial" for path in folder.iterdir())


def read_plan(folder: Path) -> Plan:
    """The plan of a sweep's folder."""
    path = folder / PLAN
    if not path.is_file():
        raise AibError(f"{folder} is not a sweep: it has no {PLAN}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["schema"] != SCHEMA:
            raise AibError(f"{path} is of another version of aib")
        return Plan(
            preset=found["preset"],
            base=Settings.from_dict(found["base"], path),
            grids=tuple(Grid(grid["name"], tuple(grid["values"])) for grid in found["grids"]),
            product=found["product"],
            seeds=tuple(found["seeds"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AibError(f"{path} cannot be read as a sweep's plan: {error!r}") from error


def make_plan(
    preset: str,
    base: Settings,
    grids: Sequence[Grid] = (),
    *,
    seeds: int = 1,
    product: bool = False,
    quick: bool = False,
) -> Plan:
    """Resolve what the model's family decides, and try every point before any is trained."""
    if not 1 <= seeds <= MOST_SEEDS:
        rule = "at least 1" if seeds < 1 else f"at most {MOST_SEEDS:,}"
        raise AibError(f"--seeds must be {rule}, not {seeds}")
    if base.devices * base.nodes > 1:
        raise AibError("each run of a sweep takes one device: leave --devices and --nodes out")
    if grids or not quick:
        check_grids(grids)
    images = load_data(with_test_images(base), base.measured_split)  # the data are there, then
    model = _shape_of(base, images)
    names = {grid.name for grid in grids}
    if not {"model", "data", "profile"} & names:
        # What the family and the profile decide, written out: a grid that has the preset's own
        # value is then seen to have it.
        base = base.updated(**{name: model.recipe[name] for name in RESOLVED})
    if not grids:
        grids = [grid for grid in quick_grids(base) if not _lacks(model, grid)]
        check_grids(grids)
    for grid in () if "model" in names else grids:
        if lacking := _lacks(model, grid):
            raise AibError(f"{base.model} has no {lacking}: {grid.knob} changes nothing")
    plan = Plan(preset, base, tuple(grids), product, tuple(range(base.seed, base.seed + seeds)))
    if plan.asked > MOST_RUNS:
        raise AibError(
            f"the grids ask for {plan.asked:,} runs, above the limit of {MOST_RUNS:,}: take fewer "
            "values or seeds"
        )
    _try(plan, images)
    return plan


def _lacks(model: Classifier, grid: Grid) -> str:
    """What the model would have to have for this knob to matter, and has not."""
    need = NEEDS.get(grid.name, "")
    return "" if not need or _has(model, need) else need


def _has(model: Classifier, need: str) -> bool:
    if need == "latent":
        return any(isinstance(m, VariationalHead) for m in model.modules())
    if need == "anchors":
        return any(isinstance(m, AnchorQuantizer) for m in model.modules())
    if need == "attention":  # of any kind: the loss sees that of the baselines as well
        return not isinstance(model, AIB) or model.attention is not None
    return any(isinstance(m, SpatialAttention) for m in model.modules())


def _try(plan: Plan, images: ImageSet) -> None:
    """Make each different model, without its weights: a bad value is said at once."""
    tried = {plan.base}
    for run in plan.runs:
        s = run.settings
        if s.augment and s.data == plan.base.data:
            check_cutout(s.cutout, images.preprocessing.image_size)
        # What the model does not depend on need not be tried again.
        shape = replace(s, seed=plan.base.seed, beta=plan.base.beta, data=plan.base.data)
        if shape not in tried:
            tried.add(shape)
            _shape_of(shape, images)


def _shape_of(settings: Settings, images: ImageSet) -> Classifier:
    """The model without weights: nothing is drawn and no memory is taken."""
    with torch.device("meta"):
        return build_model(replace(settings, init=None), images)
