"""The plot of a sweep: a row of panels per metric, a column per knob. Saved as PNG by `aib sweep`
and embedded as SVG in the page."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from aib.figures.embed import page_style
from aib.sweep.grid import Value, format_value
from aib.sweep.results import Metric, Panel, Point, SweepResults
from aib.sweep.tables import note_on_seeds

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
            figure.suptitle(textwrap.fill(title, width=int(13 * size[0])), fontsize=10)
        axes = figure.subplots(len(metrics), columns, squeeze=False, sharey="row")
        for row, metric in zip(axes, metrics, strict=True):
            for axis, panel in zip(row, results.panels, strict=True):
                _draw_panel(axis, panel, metric)
            row[0].set_ylabel(metric.short)
        for axis, panel in zip(axes[-1], results.panels, strict=True):
            axis.set_xlabel(f"{panel.knob} (the preset has {format_value(panel.own)})")
    return figure


def _draw_panel(axis: Any, panel: Panel, metric: Metric) -> None:
    places = positions([point.value for point in panel.lines[0].points])
    for line in panel.lines:
        kept = _known(places, line.points, metric)
        bars = [(x, mean, std) for x, mean, std in kept if std is not None]
        drawn = axis.plot(
            [x for x, _, _ in kept],
            [mean for _, mean, _ in kept],
            marker="o",
            markersize=4,
            label=line.name or None,
        )
        if bars:
            x, mean, std = zip(*bars, strict=True)
            color = drawn[0].get_color()
            axis.errorbar(x, mean, yerr=std, fmt="none", ecolor=color, elinewidth=1, capsize=3)
    names = [format_value(point.value) for point in panel.lines[0].points]
    axis.set_xticks(places, names)
    if 1 < len(panel.lines) <= MAX_LEGEND:
        axis.legend(fontsize=7)


def _known(
    places: Sequence[float], points: Sequence[Point], metric: Metric
) -> list[tuple[float, float, float | None]]:
    """(position, mean, std) of the points that have a mean, from left to right."""
    found = [(x, point.spread(metric)) for x, point in zip(places, points, strict=True)]
    return sorted((x, s.mean, s.std) for x, s in found if s.mean is not None)


def positions(values: Sequence[Value]) -> list[float]:
    """Positions on the axis: logarithms of widely spread numbers, else side by side."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values) and 0 < LOG_RATIO * min(numbers) <= max(numbers):
        return [math.log10(number) for number in numbers]
    return [float(i) for i in range(len(values))]


def error_bar_note(results: SweepResults) -> str:
    """A sentence on what the error bars are."""
    points = [p for panel in results.panels for line in panel.lines for p in line.points]
    counts = {point.n for point in points} - {0}
    most = max(counts, default=0)
    if most < 2:
        return "One seed per point, so no error bars."
    some = "" if len(counts) == 1 else f"{min(counts)} to "
    words = f"Means over {some}{most} seeds; the bars are one standard deviation."
    return words + note_on_seeds(results)
