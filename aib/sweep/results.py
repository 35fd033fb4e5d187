"""The results of a sweep: each run's metrics, and their mean and standard deviation per point.

They are stored in sweep_results.json; tables, plots and the page are made from them alone.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aib.config.settings import Settings
from aib.errors import AibError
from aib.sweep.grid import LETTERS, Grid, Value, format_value
from aib.sweep.plan import SCHEMA, Plan, parse_with_base
from aib.sweep.run import RunMetrics, read_measurement
from aib.system.environment import environment
from aib.system.files import read_json, write_json

RESULTS = "sweep_results.json"
MEASURED = ("metrics", "split", "images", "samples", "train_seconds")


@dataclass(frozen=True)
class Metric:
    """A metric that is plotted against every knob."""

    key: str
    title: str
    short: str  # at the head of a column
    digits: int


METRICS = (
    Metric("accuracy", "Accuracy", "accuracy %", 2),
    Metric("auroc", "Localisation: AUROC of the map against the mask", "AUROC", 3),
    Metric("bits", "Information in the latent", "bits", 1),
    Metric("perplexity", "Anchors in use (perplexity)", "anchors in use", 1),
)


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over seeds; None without runs, or with one seed."""

    mean: float | None
    std: float | None = None

    def format(self, digits: int) -> str:
        """'95.12 ± 0.08', or '95.12' for one seed."""
        if self.mean is None:
            return "-"
        more = "" if self.std is None else f" ± {self.std:.{digits}f}"
        return f"{self.mean:.{digits}f}{more}"


@dataclass(frozen=True)
class Point:
    """One value of a knob: number of finished runs and the spread of each metric over them."""

    value: Value
    point: str  # as in the runs' names
    n: int
    accuracy: Spread
    auroc: Spread
    bits: Spread
    perplexity: Spread


@dataclass(frozen=True)
class Line:
    """The points of a panel for one choice of the other knobs."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """One knob: a line of points, or with a product one line per choice of the other knobs."""

    knob: str
    setting: str
    own: Value  # the preset's
    lines: tuple[Line, ...]

    @property
    def points(self) -> list[Point]:
        return [point for line in self.lines for point in line.points]


@dataclass(frozen=True)
class RunResult:
    """One run. What is not known before it has finished is None."""

    point: str
    seed: int
    metrics: RunMetrics | None
    split: str | None
    images: int | None
    samples: str | None
    train_seconds: float | None
    device: str | None


@dataclass(frozen=True)
class SweepResults:
    """Everything in sweep_results.json."""

    preset: str
    product: bool
    seeds: tuple[int, ...]
    base: Settings
    panels: tuple[Panel, ...]
    runs: dict[str, RunResult]
    failed: dict[str, str]  # a run's name -> the reason
    environment: dict[str, Any]

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that any run has: masks, a latent or anchors may be missing."""
        found = [run.metrics for run in self.finished]
        return [m for m in METRICS if any(getattr(one, m.key) is not None for one in found)]

    @property
    def finished(self) -> list[RunResult]:
        return [run for run in self.runs.values() if run.metrics is not None]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"schema": SCHEMA} | asdict(self) | {"base": self.base.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any], path: Path) -> "SweepResults":
        """The inverse of `to_dict`."""
        results: SweepResults = parse_with_base(cls, values, path)
        lines = [panel.lines for panel in results.panels]
        if not lines or not all(each and all(line.points for line in each) for each in lines):
            raise AibError(f"{path}: panels cannot be empty")
        return results


def write_results(plan: Plan, folder: Path, failed: Mapping[str, str]) -> SweepResults:
    """Write sweep_results.json, with all runs that have finished.

    `failed` maps a run's name to the reason.
    """
    runs: dict[str, RunResult] = {}
    for run in plan.runs:
        found = read_measurement(folder / run.name)
        runs[run.name] = RunResult(
            point=run.point,
            seed=run.settings.seed,
            device=found.environment.get("device") if found else None,
            **{name: getattr(found, name, None) for name in MEASURED},
        )
    results = SweepResults(
        preset=plan.preset,
        product=plan.product,
        seeds=tuple(plan.seeds),
        base=plan.base,
        panels=tuple(_panel(plan, grid, list(runs.values())) for grid in plan.grids),
        runs=runs,
        failed=dict(failed),
        environment=environment(),
    )
    write_json(folder / RESULTS, results.to_dict())
    return results


def _panel(plan: Plan, grid: Grid, runs: Sequence[RunResult]) -> Panel:
    others = [other for other in plan.grids if other is not grid] if plan.product else []
    lines = []
    for values in itertools.product(*(other.values for other in others)):
        chosen = {other.name: value for other, value in zip(others, values, strict=True)}
        points = [
            _point(value, plan.run(chosen | {grid.name: value}, plan.seeds[0]).point, runs)
            for value in grid.values
        ]
        name = ", ".join(f"{LETTERS.get(k, k)}={format_value(v)}" for k, v in chosen.items())
        lines.append(Line(name, tuple(points)))
    return Panel(grid.knob, grid.name, plan.base.to_dict()[grid.name], tuple(lines))


def _point(value: Value, point: str, runs: Sequence[RunResult]) -> Point:
    found = [run.metrics for run in runs if run.point == point and run.metrics]
    spreads = {}
    for metric in METRICS:
        values = [v for one in found if (v := getattr(one, metric.key)) is not None]
        spreads[metric.key] = Spread(
            statistics.fmean(values) if values else None,
            statistics.stdev(values) if len(values) > 1 else None,
        )
    return Point(value, point, len(found), **spreads)


def read_results(folder: Path) -> SweepResults:
    """The results so far of the sweep in `folder`."""
    found = read_json(folder / RESULTS)
    if found is None:
        raise AibError(f"{folder} has no {RESULTS} yet: no run of the sweep has finished")
    return SweepResults.from_dict(found, folder / RESULTS)
