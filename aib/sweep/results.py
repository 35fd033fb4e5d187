"""What a sweep found: every run's figures, and their mean and deviation at each point.

sweep_results.json holds it all; the table, the figure and the page are made from it alone.
"""

import itertools
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aib.environment import environment
from aib.errors import AibError
from aib.figures.table import Table
from aib.files import read_json, write_json
from aib.sweep.grid import LETTERS, Grid, written
from aib.sweep.one import read_measured
from aib.sweep.plan import Plan

RESULTS = "sweep_results.json"
SCHEMA = 1


@dataclass(frozen=True)
class Measure:
    """One thing that is plotted against every knob."""

    key: str
    title: str
    unit: str
    short: str  # at the head of a column
    digits: int


MEASURES = (
    Measure("accuracy", "Accuracy", "%", "accuracy %", 2),
    Measure("auroc", "Localisation: AUROC of the map against the mask", "", "AUROC", 3),
    Measure("bits", "Information in the latent", "bits an image", "bits", 1),
    Measure("perplexity", "Anchors in use (perplexity)", "anchors", "anchors in use", 1),
)


def gather(plan: Plan, folder: Path, failed: Mapping[str, str]) -> dict[str, Any]:
    """All that is known now, in plain JSON types. `failed` says why, by a run's name."""
    runs: dict[str, Any] = {}
    for run in plan.runs:
        found = read_measured(folder / run.name) or {}
        runs[run.name] = {
            "point": run.point,
            "seed": run.settings.seed,
            "figures": found.get("figures"),
            "split": found.get("split"),
            "images": found.get("images"),
            "samples": found.get("samples"),
            "train_seconds": found.get("train_seconds"),
            "device": found.get("environment", {}).get("device"),
        }
    return {
        "schema": SCHEMA,
        "preset": plan.preset,
        "product": plan.product,
        "seeds": list(plan.seeds),
        "base": plan.base.to_dict(),
        "panels": [_panel(plan, grid, runs) for grid in plan.grids],
        "runs": runs,
        "failed": dict(failed),
        "environment": environment(),
    }


def _panel(plan: Plan, grid: Grid, runs: dict[str, Any]) -> dict[str, Any]:
    """One knob: a line of points, or with a product one line for each choice of the others."""
    others = [other for other in plan.grids if other is not grid] if plan.product else []
    lines = []
    for values in itertools.product(*(other.values for other in others)):
        chosen = {other.name: value for other, value in zip(others, values, strict=True)}
        points = []
        for value in grid.values:
            point = plan.run(chosen | {grid.name: value}, plan.seeds[0]).point
            points.append({"value": value, "point": point, **summary(point, runs)})
        name = ", ".join(f"{LETTERS.get(k, k)}={written(v)}" for k, v in chosen.items())
        lines.append({"name": name, "points": points})
    return {
        "knob": grid.knob,
        "setting": grid.name,
        "own": getattr(plan.base, grid.name),
        "lines": lines,
    }


def summary(point: str, runs: Mapping[str, Any]) -> dict[str, Any]:
    """Number of finished runs at a point; mean and sample deviation of each measure over them."""
    rows = [run["figures"] for run in runs.values() if run["point"] == point and run["figures"]]
    found: dict[str, Any] = {"n": len(rows)}
    for measure in MEASURES:
        values = [row[measure.key] for row in rows if row.get(measure.key) is not None]
        found[measure.key] = {
            "mean": statistics.fmean(values) if values else None,
            "deviation": statistics.stdev(values) if len(values) > 1 else None,
        }
    return found


def shown_measures(results: Mapping[str, Any]) -> list[Measure]:
    """Those that any run has: masks, a latent or anchors may be missing."""
    figures = [run["figures"] for run in results["runs"].values() if run["figures"]]
    return [m for m in MEASURES if any(row.get(m.key) is not None for row in figures)]


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Into the sweep's folder."""
    write_json(folder / RESULTS, results)


def read_results(folder: Path) -> dict[str, Any]:
    """What the sweep in `folder` has found so far."""
    path = folder / RESULTS
    found = read_json(path)
    if found is None:
        raise AibError(f"{folder} has no {RESULTS} yet: no run of the sweep has ended")
    if found.get("schema") != SCHEMA:
        raise AibError(f"{path} is not of this version of aib")
    if missing := _missing(found):
        raise AibError(f"{path} is damaged, its {missing} cannot be read; run the sweep again")
    return found


# What the tables and the page take for granted.
PARTS = {
    "preset": str,
    "product": bool,
    "seeds": list,
    "base": dict,
    "panels": list,
    "runs": dict,
    "failed": dict,
    "environment": dict,
}
RUN = {"point", "seed", "figures", "split", "images", "samples", "train_seconds", "device"}
POINT = {"value", "point", "n"} | {measure.key for measure in MEASURES}


def _missing(found: Mapping[str, Any]) -> str:
    """The first part that is not as `gather` makes it, or nothing."""
    for name, kind in PARTS.items():
        if not isinstance(found.get(name), kind):
            return name
    if not {"model", "data", "epochs"} <= set(found["base"]):
        return "base"
    if not all(_holds(run, RUN) for run in found["runs"].values()):
        return "runs"
    return "" if found["panels"] and all(map(_is_panel, found["panels"])) else "panels"


def _is_panel(panel: Any) -> bool:
    if not _holds(panel, {"knob", "setting", "own", "lines"}) or not panel["lines"]:
        return False
    return all(
        _holds(line, {"name", "points"})
        and line["points"]
        and all(_is_point(point) for point in line["points"])
        for line in panel["lines"]
    )


def _is_point(point: Any) -> bool:
    return _holds(point, POINT) and all(
        _holds(point[measure.key], {"mean", "deviation"}) for measure in MEASURES
    )


def _holds(part: Any, keys: set[str]) -> bool:
    return isinstance(part, dict) and keys <= set(part)


def tables(results: Mapping[str, Any]) -> list[Table]:
    """One table a knob; with a product one for all, as every panel has the same points."""
    panels = results["panels"][:1] if results["product"] else results["panels"]
    return [_table(results, panel) for panel in panels]


def _table(results: Mapping[str, Any], panel: Mapping[str, Any]) -> Table:
    measures, crossed = shown_measures(results), len(panel["lines"]) > 1
    rows = []
    for line in panel["lines"]:
        for point in line["points"]:
            own = " *" if point["value"] == panel["own"] else ""
            figures = (spread(point[m.key], m.digits) for m in measures)
            cells = (written(point["value"]) + own, str(point["n"]), *figures)
            rows.append((line["name"], *cells) if crossed else cells)
    head = (panel["knob"], "n", *(m.short for m in measures))
    note = f"* the preset's own; n seeds, ± standard deviation over them. {_images(results)}"
    note += drawn_anew(results)
    title = "All points" if crossed else f"Against {panel['knob']}"
    return Table(title, ("others", *head) if crossed else head, tuple(rows), note)


def spread(found: Mapping[str, Any], digits: int) -> str:
    """'95.12 ± 0.08', without the deviation where there is one seed."""
    if found["mean"] is None:
        return "-"
    more = "" if found["deviation"] is None else f" ± {found['deviation']:.{digits}f}"
    return f"{found['mean']:.{digits}f}{more}"


def _images(results: Mapping[str, Any]) -> str:
    """What the figures were measured on."""
    done = next((run for run in results["runs"].values() if run["figures"]), None)
    if done is None:
        return "No run has ended yet."
    how = f"accuracy and bits with {done['samples']} samples, maps without noise."
    if any(panel["setting"] == "data" for panel in results["panels"]):
        return f"On each run's own {done['split']} images: {how}"
    return f"On {done['images']:,} {done['split']} images of {results['base']['data']}: {how}"


def drawn_anew(results: Mapping[str, Any]) -> str:
    """A sentence where runs with different seeds do not have the same training images."""
    names = [results["base"]["data"]]
    for panel in results["panels"]:
        if panel["setting"] == "data":
            names = [point["value"] for line in panel["lines"] for point in line["points"]]
    drawn = any(name.partition(":")[0] in ("shapes", "shapes_spurious") for name in names)
    if not drawn or len(results["seeds"]) < 2:
        return ""
    return " A run's seed also draws its training shapes; the test set is one."
