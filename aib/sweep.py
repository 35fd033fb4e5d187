"""Ablations: train one preset with different settings and seeds, and plot the error over each.

    runs = plan(settings, [parse_grid("beta=1e-3,1e-2,1e-1"), parse_grid("K=8,32")], seeds=3)
    rows, failures = sweep(runs, Path("runs/sweep"))  # trains; writes sweep.csv and sweep.png
    tables(rows)

Each setting is varied alone, the others stay at the preset's values. A run is a folder in the
sweep's folder, named by what differs from the preset: `beta=0.001,seed=0`. A finished run is not
trained again, an interrupted one is resumed. Several processes may work on the same sweep, one per
GPU: each leaves out a run that another one is training.
"""

import csv
import io
import json
import math
import statistics
import typing
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import torch

from aib.config.settings import MACHINE, Settings, setting_types
from aib.config.validation import Count, check, describe, fits, reject_unknown
from aib.errors import AibError, first_line
from aib.evaluation.error import METRICS, Evaluation, Metric, describe_split, read_evaluations
from aib.figures.embed import page_style
from aib.figures.picture import save_figure
from aib.figures.table import Table, number, table_of
from aib.models.weights import CHECKPOINT, CONFIG, EVALUATION, WEIGHTS
from aib.runs.files import read_metrics
from aib.system.files import sha256, write_text
from aib.training.folder import RunFolder
from aib.training.progress import Reporter
from aib.training.train import train, with_test_images

ALIASES = {"K": "latent_dim", "Q": "num_anchors"}  # the paper's letters for two settings
# The same for all runs: the images that a run is evaluated on depend on `holdout`.
FIXED = MACHINE | {"seed", "holdout", "evaluator", "backbone"}

Value = str | int | float | bool | None
Row = dict[str, Any]  # of sweep.csv

SHOWN = {n: METRICS[n] for n in ("top1_error", "calibration_error", "kl_bits", "area")}
SHOWN["perplexity"] = Metric("anchors in use", 1)  # of the training's metrics


class Grid(NamedTuple):
    """A setting and the values that it takes."""

    name: str  # the paper's letter, where it has one
    setting: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class SweepRun:
    """One run, and the point of the sweep that it belongs to."""

    setting: str
    value: Value
    name: str  # of its folder
    settings: Settings

    def evaluation(self, folder: Path) -> Evaluation | None:
        """The evaluation of its final weights; None if the run in `folder` is not finished."""
        weights = folder / self.name / WEIGHTS
        evaluations = read_evaluations(folder / self.name / EVALUATION)
        name = self.settings.own_evaluation(evaluations)
        if name is None or not weights.is_file() or not evaluations[name].is_of(sha256(weights)):
            return None
        return evaluations[name]


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
    return Grid(name, setting, tuple(dict.fromkeys(values)))


def _parse_value(name: str, hint: Any, word: str) -> Value:
    candidates: list[Value] = [word]
    with suppress(ValueError):
        candidates = [json.loads("null" if word.lower() == "none" else word.lower()), word]
    for value in candidates:
        if fits(value, hint):
            return value
    raise AibError(f"{name} must be {describe(hint)}, not {word!r}")


def format_value(value: Value) -> str:
    """A value as text that parses back to it; 1.0 is written 1."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


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
            text = quote(format_value(value), safe="-_+.")
            point = "base" if own else f"{grid.name}={text}"
            runs.append(SweepRun(grid.name, value, f"{point},seed={seed}", settings))
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
        content = io.StringIO()
        table = csv.DictWriter(content, tuple(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        write_text(folder / "sweep.csv", content.getvalue())
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
        if evaluation := run.evaluation(folder):
            row = {"run": run.name, "setting": run.setting, "value": run.value}
            row |= {"seed": run.settings.seed, "split": evaluation.split}
            row |= {name: getattr(evaluation, name, None) for name in SHOWN}
            used = [one.get("perplexity") for one in read_metrics(folder / run.name)]
            row["perplexity"] = next((value for value in reversed(used) if value), None)
            rows.append(row)
    return rows


def points(rows: Iterable[Row]) -> dict[str, dict[Value, list[Row]]]:
    """The rows by setting and value."""
    grouped: dict[str, dict[Value, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        grouped[row["setting"]][row["value"]].append(row)
    return grouped


def mean_and_std(rows: Sequence[Row], metric: str) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation over seeds; the latter None for one seed."""
    values = [row[metric] for row in rows if row[metric] is not None]
    mean = statistics.fmean(values) if values else None
    return mean, statistics.stdev(values) if len(values) > 1 else None


def tables(rows: Sequence[Row]) -> list[Table]:
    """One table per setting: a row per value, a column per metric that any run has."""
    metrics = {k: v for k, v in SHOWN.items() if any(row[k] is not None for row in rows)}
    splits = " or ".join(sorted({describe_split(row["split"]) for row in rows}))
    note = f"Mean ± standard deviation over seeds, on {splits} images."
    made = []
    for setting, values in points(rows).items():
        body = []
        for value, runs in values.items():
            body.append({setting: format_value(value), "seeds": str(len(runs))})
            for name, (title, digits, factor) in metrics.items():
                mean, std = mean_and_std(runs, name)
                spread = f" ± {number(std, digits, factor)}" if std else ""
                body[-1][title] = number(mean, digits, factor) + spread
        made.append(table_of(f"Against {setting}", body, note))
    return made


def plot(rows: Sequence[Row]) -> Any:
    """A matplotlib figure: the error over each setting, with standard deviations over seeds."""
    from matplotlib.figure import Figure

    panels = points(rows)
    with page_style():
        figure = Figure(figsize=(3.2 * len(panels) + 0.6, 2.6), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axis, (setting, values) in zip(axes, panels.items(), strict=True):
            errors = [mean_and_std(rows, "top1_error") for rows in values.values()]
            x = range(len(values))
            bars = [std or math.nan for _, std in errors]  # matplotlib leaves NaN out
            axis.errorbar(x, [mean for mean, _ in errors], yerr=bars, fmt="o-", capsize=3)
            axis.set_xticks(x, [format_value(value) for value in values])
            axis.set_xlabel(setting)
        axes[0].set_ylabel("error, %")
    return figure
