"""Ablations: train one preset with different settings and seeds, and plot the error over each.

    runs = plan(settings, [parse_grid("beta=1e-3,1e-2,1e-1"), parse_grid("K=8,32")], seeds=3)
    rows, failures = sweep(runs, Path("runs/sweep"))  # trains; writes sweep.csv and sweep.png
    tables(rows)

Each setting is varied alone, the others stay at the preset's values. A run is a folder in the
sweep's folder, named by what differs from the preset: `beta=0.001,seed=0`. A finished run is not
trained again, an interrupted one is resumed. Several processes may work on the same sweep, one per
GPU: each leaves out a run that another one is training.
"""

import math
import statistics
import typing
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from aib.config.settings import MACHINE, Settings, setting_types
from aib.config.validation import Count, check, describe, fits, reject_unknown
from aib.errors import AibError, first_line
from aib.evaluation.error import Evaluation, describe_split, read_evaluations
from aib.figures.embed import page_style
from aib.figures.picture import save_figure
from aib.figures.table import Table, number
from aib.models.weights import CHECKPOINT, CONFIG, EVALUATION, WEIGHTS
from aib.runs.files import read_metrics, train_seconds
from aib.system.files import as_text, sha256, write_csv
from aib.training.folder import RunFolder
from aib.training.progress import Reporter
from aib.training.train import train, with_test_images

ALIASES = {"K": "latent_dim", "Q": "num_anchors"}  # the paper's letters for two settings
LETTERS = {name: letter for letter, name in ALIASES.items()}
# The same for all runs: the images that a run is evaluated on depend on `holdout`.
FIXED = MACHINE | {"seed", "holdout", "evaluator", "backbone"}
WORDS = {"none": None, "true": True, "false": False}
LOG_RATIO = 8  # from this ratio of the largest to the smallest value on, the axis is logarithmic

Value = str | int | float | bool | None
Row = dict[str, Any]  # of sweep.csv

# Metrics of the tables: title, digits, factor.
METRICS = {
    "error": ("error, %", 2, 1.0),
    "calibration_error": ("calibration error, %", 2, 1.0),
    "kl_bits": ("latent, bits", 1, 1.0),
    "area": ("mask area, %", 1, 100.0),
    "perplexity": ("anchors in use", 1, 1.0),
}


@dataclass(frozen=True)
class Grid:
    """A setting and the values that it takes."""

    setting: str
    values: tuple[Value, ...]

    @property
    def name(self) -> str:
        """The setting's name, or the paper's letter for it."""
        return LETTERS.get(self.setting, self.setting)


@dataclass(frozen=True)
class SweepRun:
    """One run, and the point of the sweep that it belongs to."""

    grid: Grid
    value: Value
    name: str  # of its folder
    settings: Settings

    def evaluation(self, folder: Path) -> Evaluation | None:
        """The evaluation of its final weights; None if the run in `folder` is not finished."""
        weights = folder / self.name / WEIGHTS
        found = read_evaluations(folder / self.name / EVALUATION)
        name = self.settings.own_evaluation(found)
        if name is None or not weights.is_file() or not found[name].is_of(sha256(weights)):
            return None
        return found[name]


def parse_grid(text: str) -> Grid:
    """Parse 'K=64,128' to a setting and values of its type."""
    name, _, listed = (part.strip() for part in text.partition("="))
    words = [word.strip() for word in listed.split(",")]
    if not all(words):
        raise AibError(f"a grid is SETTING=VALUE,VALUE, such as beta=0.001,0.01, not {text!r}")
    types = setting_types()
    names = [n for n, h in types.items() if n not in FIXED and typing.get_origin(h) is not tuple]
    reject_unknown([name], [*ALIASES, *names], "a sweep cannot vary", "aib train --help")
    setting = ALIASES.get(name, name)
    values = (_parse_value(name, types[setting], word) for word in words)
    return Grid(setting, tuple(dict.fromkeys(values)))


def _parse_value(name: str, hint: Any, word: str) -> Value:
    convert: Callable[[str], Value]
    for convert in (lambda text: WORDS[text.lower()], int, float, str):
        with suppress(KeyError, ValueError):
            if fits(value := convert(word), hint):
                return value
    raise AibError(f"{name} must be {describe(hint)}, not {word!r}")


def format_value(value: Value) -> str:
    """A value as text that parses back to it; 1.0 is written 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return str(int(value))
    return str(value)


def plan(base: Settings, grids: Sequence[Grid], seeds: int = 1) -> list[SweepRun]:
    """The run of each value and seed. All points come before the next seed, so that a sweep that is
    stopped early has complete plots."""
    check("seeds", seeds, Count)
    if not grids:
        raise AibError("name a setting to vary, such as --grid beta=1e-3,1e-2,1e-1")
    if base.devices * base.nodes > 1:
        raise AibError("each run of a sweep uses one device: leave out --devices and --nodes")
    runs = []
    for seed in range(base.seed, base.seed + seeds):
        for grid, value in ((one, value) for one in grids for value in one.values):
            settings = with_test_images(base.updated(**{grid.setting: value}, seed=seed))
            own = value == base.to_dict()[grid.setting]
            # A setting may be a path, which is no part of a file name.
            text = quote(format_value(value), safe="-_+.", errors="surrogateescape")
            point = "base" if own else f"{grid.name}={text}"
            runs.append(SweepRun(grid, value, f"{point},seed={seed}", settings))
    return runs


def sweep(
    runs: Sequence[SweepRun], folder: Path, report: Callable[[], Reporter] = Reporter
) -> tuple[list[Row], list[str]]:
    """Train what is left, and write sweep.csv and sweep.png: the results and the failed runs."""
    unique = {run.name: run for run in runs}  # several grids may hold the preset's own value
    for name, run in unique.items():
        if (folder / name / CONFIG).is_file():
            RunFolder(folder / name).check_settings(run.settings)
    left = [run for run in unique.values() if run.evaluation(folder) is None]
    failed = [run.name for run in left if not train_one(run, folder, report())]
    rows = collect(runs, folder)
    if rows:
        write_csv(folder / "sweep.csv", tuple(rows[0]), rows)
        save_figure(plot(rows), folder / "sweep.png")
    return rows, failed


def train_one(run: SweepRun, folder: Path, report: Reporter) -> bool:
    """Train or resume one run; its failure is a message, so that it does not stop the others."""
    path = folder / run.name
    try:
        train(run.settings, path, resume=(path / CHECKPOINT).is_file(), report=report)
    except (AibError, RuntimeError) as error:  # torch raises the latter, for memory too
        report.message(f"{run.name} failed: {first_line(error)}")
        return False
    finally:
        if run.settings.compile:
            torch.compiler.reset()  # compiled code of earlier models counts against a limit
    return True


def collect(runs: Iterable[SweepRun], folder: Path) -> list[Row]:
    """A row of metrics per finished run and grid."""
    rows = []
    for run in runs:
        if (found := run.evaluation(folder)) is None:
            continue
        history = read_metrics(folder / run.name)
        used = [row["perplexity"] for row in history if row.get("perplexity") is not None]
        rows.append(
            {
                "run": run.name,
                "setting": run.grid.name,
                "value": run.value,
                "seed": run.settings.seed,
                "split": found.split,
                "images": found.images,
                "error": found.top1_error,
                "error_low": found.top1_interval[0],
                "error_high": found.top1_interval[1],
                "nll": found.nll,
                "calibration_error": found.calibration_error,
                "kl_bits": found.kl_bits,
                "area": found.area,
                "perplexity": used[-1] if used else None,
                "minutes": train_seconds(folder / run.name) / 60,
            }
        )
    return rows


def points(rows: Iterable[Row]) -> dict[str, dict[Value, list[Row]]]:
    """The rows by setting and value."""
    found: dict[str, dict[Value, list[Row]]] = {}
    for row in rows:
        found.setdefault(row["setting"], {}).setdefault(row["value"], []).append(row)
    return found


def mean_and_std(rows: Sequence[Row], metric: str) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation over seeds; the latter None for one seed."""
    values = [row[metric] for row in rows if row[metric] is not None]
    mean = statistics.fmean(values) if values else None
    return mean, statistics.stdev(values) if len(values) > 1 else None


def tables(rows: Sequence[Row]) -> list[Table]:
    """One table per setting: a row per value, a column per metric that any run has."""
    metrics = [name for name in METRICS if any(row[name] is not None for row in rows)]
    splits = " or ".join(sorted({describe_split(row["split"]) for row in rows}))
    note = f"Mean ± standard deviation over seeds, on {splits} images."
    made = []
    for setting, values in points(rows).items():
        head = (setting, "seeds", *(METRICS[name][0] for name in metrics))
        body = tuple(
            (format_value(value), str(len(found)), *(_cell(found, name) for name in metrics))
            for value, found in values.items()
        )
        made.append(Table(f"Against {setting}", head, body, note))
    return made


def _cell(rows: Sequence[Row], metric: str) -> str:
    (mean, std), (_, digits, factor) = mean_and_std(rows, metric), METRICS[metric]
    return number(mean, digits, factor) + (f" ± {factor * std:.{digits}f}" if std else "")


def plot(rows: Sequence[Row]) -> Any:
    """A matplotlib figure: the error over each setting, with standard deviations over seeds."""
    from matplotlib.figure import Figure

    panels = points(rows)
    with page_style():
        figure = Figure(figsize=(3.2 * len(panels) + 0.6, 2.6), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axis, (setting, values) in zip(axes, panels.items(), strict=True):
            found = [mean_and_std(rows, "error") for rows in values.values()]
            x = positions(list(values))
            order = sorted(range(len(x)), key=x.__getitem__)
            mean, std = ([found[i][part] for i in order] for part in (0, 1))
            bars = [math.nan if one is None else one for one in std]  # matplotlib leaves them out
            axis.errorbar([x[i] for i in order], mean, yerr=bars, fmt="o-", capsize=3)
            axis.set_xticks(x, [as_text(format_value(value)) for value in values])
            axis.set_xlabel(setting)
        axes[0].set_ylabel("error, %")
    return figure


def positions(values: Sequence[Value]) -> list[float]:
    """Positions on the axis: logarithms of widely spread numbers, else side by side."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values) and 0 < LOG_RATIO * min(numbers) <= max(numbers):
        return [math.log10(number) for number in numbers]
    return list(map(float, range(len(values))))
