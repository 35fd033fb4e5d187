"""The results of a sweep as tables and as plots: a row per metric, a column per knob."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from aib.evaluation.error import describe_samples, describe_split
from aib.figures.embed import page_style
from aib.figures.table import Table
from aib.sweep.grid import Value, format_value
from aib.sweep.results import Metric, Panel, SweepResults
from aib.system.files import as_text

LOG_RATIO = 8  # from this ratio of the largest to the smallest value on, the axis is logarithmic
MAX_LEGEND = 6  # lines that a panel's legend names


def draw_panels(results: SweepResults, metrics: Sequence[Metric], title: str = "") -> Any:
    """A matplotlib figure in the page's style."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = len(results.panels)
    size = (3.2 * columns + 0.6, 2.3 * len(metrics) + 0.3 + 0.4 * bool(title))
    with page_style():
        layout = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.06)
        figure = Figure(figsize=size, layout=layout)
        if title:
            figure.suptitle(textwrap.fill(as_text(title), int(13 * size[0])), fontsize=10)
        axes = figure.subplots(len(metrics), columns, squeeze=False, sharey="row")
        for row, metric in zip(axes, metrics, strict=True):
            for axis, panel in zip(row, results.panels, strict=True):
                _draw_panel(axis, panel, metric)
            row[0].set_ylabel(metric.short)
        for axis, panel in zip(axes[-1], results.panels, strict=True):
            own = as_text(format_value(panel.own))
            axis.set_xlabel(f"{panel.knob} (the preset has {own})")
    return figure


def _draw_panel(axis: Any, panel: Panel, metric: Metric) -> None:
    ticks = positions([point.value for point in panel.lines[0].points])
    for line in panel.lines:
        spreads = [getattr(point, metric.key) for point in line.points]
        found = [(x, s.mean, s.std) for x, s in zip(ticks, spreads, strict=True)]
        kept = sorted(one for one in found if one[1] is not None)
        # matplotlib leaves out bars that are NaN
        x, mean, std = np.array(kept, float).reshape(-1, 3).T
        style = {"fmt": "o-", "markersize": 4, "elinewidth": 1, "capsize": 3}
        axis.errorbar(x, mean, yerr=std, label=as_text(line.name) or None, **style)
    names = [as_text(format_value(point.value)) for point in panel.lines[0].points]
    axis.set_xticks(ticks, names)
    if 1 < len(panel.lines) <= MAX_LEGEND:
        axis.legend(fontsize=7)


def positions(values: Sequence[Value]) -> list[float]:
    """Positions on the axis: logarithms of widely spread numbers, else side by side."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values) and 0 < LOG_RATIO * min(numbers) <= max(numbers):
        return [math.log10(number) for number in numbers]
    return [float(i) for i in range(len(values))]


def sweep_tables(results: SweepResults) -> list[Table]:
    """One table per knob; with a product one for all, as every panel has the same points."""
    panels = results.panels[:1] if results.product else results.panels
    return [_table(results, panel) for panel in panels]


def _table(results: SweepResults, panel: Panel) -> Table:
    metrics, crossed = results.metrics, len(panel.lines) > 1
    rows = []
    for line in panel.lines:
        for point in line.points:
            own = " *" if point.value == panel.own else ""
            spreads = (getattr(point, m.key).format(m.digits) for m in metrics)
            cells = (format_value(point.value) + own, str(point.n), *spreads)
            rows.append((line.name, *cells) if crossed else cells)
    head = (panel.knob, "n", *(m.short for m in metrics))
    note = f"* the preset's own; n seeds, ± standard deviation over them. {_images(results)}"
    note += note_on_seeds(results)
    title = "All points" if crossed else f"Against {panel.knob}"
    return Table(title, ("others", *head) if crossed else head, tuple(rows), note)


def _images(results: SweepResults) -> str:
    """A sentence on the images that the metrics were measured on."""
    if not results.finished:
        return "No run has finished yet."
    done = results.finished[0]
    split = describe_split(done.split or "")
    samples = sorted({run.samples for run in results.finished if run.samples})
    how = f"accuracy and bits with {' or '.join(map(describe_samples, samples))}, "
    how += "maps without noise."
    if any(panel.setting == "data" for panel in results.panels):
        return f"On each run's own {split} images: {how}"
    return f"On {done.images or 0:,} {split} images of {results.base.data}: {how}"


def note_on_seeds(results: SweepResults) -> str:
    """A sentence where runs with different seeds have different images."""
    varied = [panel.points for panel in results.panels if panel.setting == "data"]
    names = [str(point.value) for point in varied[0]] if varied else [results.base.data]
    sampled = any(name.partition(":")[0] in ("shapes", "shapes_spurious") for name in names)
    held_out = any(run.split == "val" for run in results.finished)
    if len(results.seeds) < 2 or not (sampled or held_out):
        return ""
    if not sampled:
        return " A run's seed also draws its held-out images, unless the data has its own."
    rest = " and the held-out ones among them" if held_out else "; the test set is one"
    return f" A run's seed also draws its training shapes{rest}."


def error_bar_note(results: SweepResults) -> str:
    """A sentence on what the error bars are."""
    counts = {point.n for panel in results.panels for point in panel.points} - {0}
    most = max(counts, default=0)
    if most < 2:
        return "One seed per point, so no error bars."
    some = "" if len(counts) == 1 else f"{min(counts)} to "
    words = f"Means over {some}{most} seeds; the bars are one standard deviation."
    return words + note_on_seeds(results)
