"""The page of a sweep: every metric against every knob."""

from markupsafe import Markup

from aib.errors import counted
from aib.evaluation.error import describe_split
from aib.figures.embed import to_svg
from aib.figures.table import NOTHING, Table, number, table_of
from aib.report.blocks import Section, blocks, render
from aib.report.reproduce import settings_table, versions
from aib.sweep.results import SweepResults
from aib.sweep.show import MAX_LEGEND, draw_panels, error_bar_note, sweep_tables


def sweep_page(results: SweepResults) -> str:
    """One self-contained HTML page."""
    sections = [Section("Summary", "summary", _summary(results))]
    for metric in results.metrics:
        knobs = ", ".join(panel.knob for panel in results.panels)
        label = f"{metric.title} against {knobs}; the tables below have the numbers"
        svg = to_svg(draw_panels(results, [metric]), label)
        shown = [blocks.wide_chart(svg, len(results.panels))]
        if len(results.panels[0].lines) > MAX_LEGEND:
            text = "Each line is one choice of the other knobs; the table below names them."
            shown.append(blocks.text(text, soft=True))
        sections.append(Section(metric.title, metric.key, shown))
    tables = [blocks.table(table, heading=True) for table in sweep_tables(results)]
    sections += [
        Section("Tables", "tables", tables if results.metrics else []),
        Section("Runs", "runs", [blocks.table(_runs(results))]),
        Section("How to reproduce", "reproduce", _reproduce(results)),
    ]
    return render(f"Ablations of {results.preset}", sections)


def _summary(results: SweepResults) -> list[Markup]:
    runs, base = results.runs.values(), results.base
    done, minutes = len(results.finished), sum(run.train_seconds or 0.0 for run in runs) / 60
    cards = [
        (f"{done} of {len(runs)}", "runs finished"),
        (str(len(results.seeds)), "seeds per point"),
        (f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h", "of training"),
    ]
    how = "all combinations" if results.product else "one knob at a time"
    knobs = ", ".join(panel.knob for panel in results.panels)
    text = f"{base.model} on {base.data}, {counted(base.epochs, 'epoch')}; {knobs}: {how}."
    shown = [blocks.cards(cards), blocks.text(text)]
    shown.append(blocks.text(error_bar_note(results), soft=True))
    if done < len(runs):
        shown.append(blocks.text("Some runs are missing: see below."))
    return shown


def _runs(results: SweepResults) -> Table:
    """Every run; one that failed with the reason."""
    rows = []
    for name, run in results.runs.items():
        interval = run.metrics and run.metrics.accuracy_interval
        rows.append(
            {
                "run": name,
                "state": "done" if run.metrics else results.failed.get(name, "not done yet"),
                "accuracy %": number(run.metrics.accuracy if run.metrics else None, 2),
                "95% interval": "{:.2f}-{:.2f}".format(*interval) if interval else NOTHING,
                "training, s": number(run.train_seconds or None, 0),
            }
        )
    splits = sorted({describe_split(run.split) for run in results.runs.values() if run.split})
    images = f"{' or '.join(splits)} images" if splits else "images"
    note = f"The interval is that of one run on its {images}, not that over seeds."
    return table_of("Runs", rows, note)


def _reproduce(results: SweepResults) -> list[Markup]:
    command = results.environment.get("command")
    # The environment is that of the last collection; the runs may have had other hardware.
    facts = versions(results.environment | {"device": None})
    facts += sorted({run.device for run in results.runs.values() if run.device})
    seeds = ", ".join(map(str, results.seeds))
    return [
        *([blocks.code(command)] if command else []),
        blocks.text(f"With {', '.join(facts)}; seeds {seeds}."),
        settings_table("Settings that all runs start from", results.base),
    ]
