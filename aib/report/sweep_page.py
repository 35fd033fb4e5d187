"""The page of a sweep: every metric against every knob."""

from aib.figures.embed import to_svg
from aib.figures.table import NOTHING, Table, number
from aib.report.blocks import (
    Block,
    Cards,
    Code,
    Details,
    Section,
    TableBlock,
    Text,
    WideChart,
    render,
)
from aib.sweep.panels import MAX_LEGEND, draw_panels, error_bar_note
from aib.sweep.results import SweepResults
from aib.sweep.tables import sweep_tables


def sweep_page(results: SweepResults) -> str:
    """One self-contained HTML page."""
    sections = [Section("Summary", "summary", _summary(results))]
    for metric in results.metrics:
        knobs = ", ".join(panel.knob for panel in results.panels)
        label = f"{metric.title} against {knobs}; the tables below have the numbers"
        svg = to_svg(draw_panels(results, [metric]), label)
        blocks: list[Block] = [WideChart(svg, len(results.panels))]
        if len(results.panels[0].lines) > MAX_LEGEND:
            text = "Each line is one choice of the other knobs; the table below names them."
            blocks.append(Text(text, soft=True))
        sections.append(Section(metric.title, metric.key, blocks))
    tables = [TableBlock(table, heading=True) for table in sweep_tables(results)]
    sections += [
        Section("Tables", "tables", tables if results.metrics else []),
        Section("Runs", "runs", [TableBlock(_runs(results))]),
        Section("How to reproduce", "reproduce", _reproduce(results)),
    ]
    return render(f"Ablations of {results.preset}", sections)


def _summary(results: SweepResults) -> list[Block]:
    runs, base = results.runs.values(), results.base
    done, minutes = len(results.finished), sum(run.train_seconds or 0.0 for run in runs) / 60
    cards = [
        (f"{done} of {len(runs)}", "runs finished"),
        (str(len(results.seeds)), "seeds per point"),
        (f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h", "of training"),
    ]
    how = "all combinations" if results.product else "one knob at a time"
    knobs = ", ".join(panel.knob for panel in results.panels)
    text = f"{base.model} on {base.data}, {base.epochs} epochs; {knobs}: {how}."
    missing = [] if done == len(runs) else [Text("Some runs are missing: see below.")]
    return [Cards(cards), Text(text), Text(error_bar_note(results), soft=True), *missing]


def _runs(results: SweepResults) -> Table:
    """Every run; one that failed with the reason."""
    rows = []
    for name, run in results.runs.items():
        state = "done" if run.metrics else results.failed.get(name, "not done yet")
        interval = run.metrics and run.metrics.accuracy_interval
        rows.append(
            (
                name,
                state,
                number(run.metrics.accuracy, 2) if run.metrics else NOTHING,
                "{:.2f}-{:.2f}".format(*interval) if interval else NOTHING,
                number(run.train_seconds or None, 0),
            )
        )
    head = ("run", "state", "accuracy %", "95% interval", "training, s")
    splits = sorted({run.split for run in results.runs.values() if run.split})
    images = f"{' or '.join(splits)} images" if splits else "images"
    note = f"The interval is that of one run on its {images}, not that over seeds."
    return Table("Runs", head, tuple(rows), note)


def _reproduce(results: SweepResults) -> list[Block]:
    environment = results.environment
    command = environment.get("command")
    keys = {"python": "Python", "torch": "torch", "aib": "aib"}
    facts = [f"{name} {environment[key]}" for key, name in keys.items() if environment.get(key)]
    facts += sorted({run.device for run in results.runs.values() if run.device})
    seeds = ", ".join(map(str, results.seeds))
    rows = tuple((name, str(value)) for name, value in results.base.to_dict().items())
    return [
        *([Code(command)] if command else []),
        Text(f"With {', '.join(facts)}; seeds {seeds}."),
        Details("Settings that all runs start from", Table("Settings", ("setting", "value"), rows)),
    ]
