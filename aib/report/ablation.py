"""The page of a sweep: every measure against every knob."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from aib.figures.table import Table
from aib.report.html import card, chart, paragraph, section, table_html
from aib.report.page import document, headings, links_to
from aib.report.svg import Series, line_chart
from aib.sweep.grid import written
from aib.sweep.panels import bars, caption, ordered
from aib.sweep.results import Measure, shown_measures, spread, tables

NAMED = 4  # lines of a panel that have room for their names above it


def sweep_page(results: Mapping[str, Any]) -> str:
    """One self-contained HTML page from sweep_results.json."""
    measures, panels = shown_measures(results), results["panels"]
    body = section("At a glance", "summary", _head(results))
    for measure in measures:
        limits = y_range(panels, measure)
        drawn = [_chart(panel, measure, limits) for panel in panels]
        row = f'<div class="charts panels">{"".join(drawn)}</div>'
        body += section(measure.title, measure.key, [row, *_other_lines(results)])
    found = [part for table in tables(results) for part in _titled(table)]
    body += section("The figures", "figures", found if measures else [])
    body += section("Runs", "runs", _runs(results))
    body += section("How to reproduce", "reproduce", _reproduce(results))
    return document(f"Ablations of {results['preset']}", body, links_to(headings(body)))


def _head(results: Mapping[str, Any]) -> list[str]:
    runs, base = results["runs"].values(), results["base"]
    done = sum(run["figures"] is not None for run in runs)
    shown = [card(f"{done} of {len(runs)}", "runs have ended")]
    shown += [card(str(len(results["seeds"])), "seeds a point")]
    minutes = sum(run["train_seconds"] or 0.0 for run in runs) / 60
    spent = f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
    shown += [card(spent, "of training in all")]
    how = "all combinations" if results["product"] else "one knob at a time"
    knobs = ", ".join(panel["knob"] for panel in results["panels"])
    words = f"{base['model']} on {base['data']}, {base['epochs']} epochs; {knobs}: {how}."
    left = [] if done == len(runs) else [paragraph("Some runs are missing: see below.")]
    return [
        f'<div class="cards">{"".join(shown)}</div>',
        paragraph(words),
        paragraph(bars(results), "soft"),
        *left,
    ]


def y_range(panels: Sequence[Mapping[str, Any]], measure: Measure) -> tuple[float, float]:
    """One range for a row of panels, so that they can be held against each other."""
    points = [p[measure.key] for panel in panels for _, pts in ordered(panel) for _, p in pts]
    known = [(p["mean"], p["deviation"] or 0.0) for p in points if p["mean"] is not None]
    low, high = min(m - d for m, d in known), max(m + d for m, d in known)
    pad = 0.06 * (high - low) or 0.5
    return low - pad, high + pad


def _chart(panel: Mapping[str, Any], measure: Measure, limits: tuple[float, float]) -> str:
    lines = ordered(panel)
    series = []
    for color, (name, points) in enumerate(lines):
        found = [point[measure.key] for _, point in points]
        series.append(
            Series(
                name if len(lines) <= NAMED else "",
                [x for x, _ in points],
                [math.nan if f["mean"] is None else f["mean"] for f in found],
                color=color,
                dots=True,
                spread=[f["deviation"] or 0.0 for f in found],
            )
        )
    places = [(x, written(point["value"])) for x, point in lines[0][1]]
    low, high = places[0][0], places[-1][0]
    pad = 0.06 * (high - low) or 0.5
    svg = line_chart(
        series,
        f"{measure.title} against {panel['knob']}: {_read_out(panel, measure)}",
        x_label=caption(panel),
        y_label=measure.unit,
        x_range=(low - pad, high + pad),
        y_range=limits,
        x_ticks=places,
    )
    return chart(f"{measure.short} against {panel['knob']}", svg)


def _read_out(panel: Mapping[str, Any], measure: Measure) -> str:
    """The points in words, for those who cannot see the line."""
    return "; ".join(
        (f"{name}: " if name else "")
        + ", ".join(
            f"{written(p['value'])}: {spread(p[measure.key], measure.digits)}" for _, p in pts
        )
        for name, pts in ordered(panel)
    )


def _other_lines(results: Mapping[str, Any]) -> list[str]:
    if len(results["panels"][0]["lines"]) <= NAMED:
        return []
    words = "Each line is one choice of the other knobs; the table below names them."
    return [paragraph(words, "soft")]


def _titled(table: Table) -> list[str]:
    return [f"<h3>{escape(table.title)}</h3>", table_html(table)]


def _runs(results: Mapping[str, Any]) -> list[str]:
    """Every run, those that failed with the reason."""
    rows = []
    for name, run in results["runs"].items():
        figures = run["figures"] or {}
        seconds = run["train_seconds"]
        state = "done" if figures else results["failed"].get(name, "not done yet")
        interval = figures.get("accuracy_interval")
        rows.append(
            (
                name,
                state,
                f"{figures['accuracy']:.2f}" if figures else "-",
                "{:.2f}-{:.2f}".format(*interval) if interval else "-",
                f"{seconds:.0f}" if seconds else "-",
            )
        )
    head = ("run", "state", "accuracy %", "95% interval", "training, s")
    splits = sorted({run["split"] for run in results["runs"].values() if run["split"]})
    images = f"{' or '.join(splits)} images" if splits else "images"
    note = f"The interval is that of one run on its {images}, not that over seeds."
    return [table_html(Table("Runs", head, tuple(rows), note))]


def _reproduce(results: Mapping[str, Any]) -> list[str]:
    environment = results["environment"]
    command = environment.get("command")
    keys = {"python": "Python", "torch": "torch", "aib": "aib"}
    facts = [f"{name} {environment[key]}" for key, name in keys.items() if environment.get(key)]
    devices = sorted({run["device"] for run in results["runs"].values() if run["device"]})
    seeds = ", ".join(map(str, results["seeds"]))
    rows = tuple((name, str(value)) for name, value in results["base"].items())
    inner = table_html(Table("Settings", ("setting", "value"), rows))
    return [
        f"<pre>{escape(command)}</pre>" if command else "",
        paragraph(f"With {', '.join([*facts, *devices])}; seeds {seeds}."),
        f"<details><summary>The settings that are varied</summary>{inner}</details>",
    ]
