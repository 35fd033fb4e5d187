"""The results of a sweep as tables of text, with notes on how they were measured."""

from aib.figures.table import Table
from aib.sweep.grid import format_value
from aib.sweep.results import Panel, SweepResults


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
            spreads = (point.spread(m).format(m.digits) for m in metrics)
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
    how = f"accuracy and bits with {done.samples} samples, maps without noise."
    if any(panel.setting == "data" for panel in results.panels):
        return f"On each run's own {done.split} images: {how}"
    return f"On {done.images or 0:,} {done.split} images of {results.base.data}: {how}"


def note_on_seeds(results: SweepResults) -> str:
    """A sentence where runs with different seeds have different training images."""
    names = [results.base.data]
    for panel in results.panels:
        if panel.setting == "data":
            names = [str(point.value) for line in panel.lines for point in line.points]
    sampled = any(name.partition(":")[0] in ("shapes", "shapes_spurious") for name in names)
    if not sampled or len(results.seeds) < 2:
        return ""
    return " A run's seed also draws its training shapes; the test set is one."
