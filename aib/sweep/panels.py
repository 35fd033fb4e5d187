"""Where a knob's values stand on an axis, and the panels as one picture."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from aib.sweep.grid import Value, written
from aib.sweep.results import Measure, drawn_anew, shown_measures

SPREAD = 8  # from this ratio of the largest to the smallest value on, the axis is logarithmic


def positions(values: Sequence[Value]) -> list[float]:
    """One place a value: by its logarithm where numbers are spread, by the number itself where
    they are not, and side by side for words, and for numbers that have no logarithm."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values):
        return [float(i) for i in range(len(values))]
    if min(numbers) > 0 and max(numbers) >= SPREAD * min(numbers):
        return [math.log10(number) for number in numbers]
    if max(numbers) - min(numbers) <= SPREAD * max(min(map(abs, numbers)), 1e-300):
        return [float(number) for number in numbers]
    return [float(i) for i in range(len(values))]


def ordered(panel: Mapping[str, Any]) -> list[tuple[str, list[tuple[float, Any]]]]:
    """The lines of a panel: its name and its points, each with its place, from left to right."""
    places = positions([point["value"] for point in panel["lines"][0]["points"]])
    return [
        (line["name"], sorted(zip(places, line["points"], strict=True), key=lambda pair: pair[0]))
        for line in panel["lines"]
    ]


def caption(panel: Mapping[str, Any]) -> str:
    """The knob and what the preset has for it."""
    return f"{panel['knob']} (the preset has {written(panel['own'])})"


def bars(results: Mapping[str, Any]) -> str:
    """What the error bars are."""
    lines = [line for panel in results["panels"] for line in panel["lines"]]
    counts = {point["n"] for line in lines for point in line["points"]} - {0}
    most = max(counts, default=0)
    if most < 2:
        return "One seed a point, so no error bars."
    some = "" if len(counts) == 1 else f"{min(counts)} to "
    words = f"Means over {some}{most} seeds; the bars are one standard deviation."
    return words + drawn_anew(results)


def draw(results: Mapping[str, Any]) -> Any:
    """A matplotlib figure: a row for each measure, a column for each knob."""
    from matplotlib.figure import Figure

    measures, panels = shown_measures(results), results["panels"]
    size = (3.2 * len(panels) + 0.6, 2.3 * len(measures) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    title = textwrap.fill(f"{results['preset']}: {bars(results)}", width=int(13 * size[0]))
    figure.suptitle(title, fontsize=10)
    axes = figure.subplots(len(measures), len(panels), squeeze=False, sharey="row")
    for row, measure in zip(axes, measures, strict=True):
        for axis, panel in zip(row, panels, strict=True):
            _draw_panel(axis, panel, measure)
        row[0].set_ylabel(measure.short, fontsize=9)
    for axis, panel in zip(axes[-1], panels, strict=True):
        axis.set_xlabel(caption(panel), fontsize=9)
    return figure


def _draw_panel(axis: Any, panel: Mapping[str, Any], measure: Measure) -> None:
    for name, points in ordered(panel):
        kept = [(x, p[measure.key]) for x, p in points if p[measure.key]["mean"] is not None]
        axis.errorbar(
            [x for x, _ in kept],
            [found["mean"] for _, found in kept],
            yerr=[found["deviation"] or 0.0 for _, found in kept],
            marker="o",
            markersize=4,
            capsize=3,
            linewidth=1.5,
            label=name or None,
        )
    first = ordered(panel)[0][1]
    axis.set_xticks([x for x, _ in first], [written(p["value"]) for _, p in first], fontsize=8)
    axis.tick_params(axis="y", labelsize=8)
    axis.grid(axis="y", color="0.9")
    if 1 < len(panel["lines"]) <= 6:
        axis.legend(fontsize=7)
