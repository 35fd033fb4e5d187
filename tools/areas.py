"""Draw what the area of the mask costs: `python -m tools.areas results/FILE.json... OUT.png`.

Error, what another image's map costs, and boxes where the data have them, against the area that
training allows: one point per run, a line through the means. A dashed line is the plain network.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from aib.config.options import ModelOptions
from aib.errors import AibError
from aib.figures.embed import COLORS, GRAY, page_style
from aib.figures.picture import save_figure
from tools.results.maps import find
from tools.results.store import StoredRun, read_results

MASKED = "_aib_masked"  # what a masked model's name has and its plain network's has not
Value = Callable[[StoredRun], float | None]
Curve = Mapping[float, Sequence[float]]  # values of all seeds by area


def curve(masked: Sequence[StoredRun], value: Value) -> Curve:
    """A value of masked runs by area, in rising order."""
    found: dict[float, list[float]] = {}
    for run in masked:
        if (known := value(run)) is not None:
            found.setdefault(float(run.recipe.get("area", ModelOptions.area)), []).append(known)
    return dict(sorted(found.items()))


def measured(*path: str | int) -> Value:
    """A value of a run's maps, in percent."""
    return partial(_measured, path)


def _measured(path: Sequence[str | int], run: StoredRun) -> float | None:
    found = find(run.maps, *path)
    return None if found is None else 100 * float(found)


def draw_areas(runs: Sequence[StoredRun]) -> Any:
    """Return the picture as a matplotlib figure."""
    from matplotlib.figure import Figure

    masked = [run for run in runs if run.model.endswith(MASKED)]
    plain = [run for run in runs if run.model + MASKED in {other.model for other in masked}]
    panels: list[tuple[str, Value, list[float | None]]] = [
        ("test error, %", lambda run: run.error, [run.error for run in plain]),
        ("another image's map, points lost", measured("drops", "another", 0), []),
        (
            "MaxBoxAccV2, largest component, %",
            measured("located", "own", "largest_box_acc", 0),
            [measured("located", "gradcam", "largest_box_acc", 0)(run) for run in plain],
        ),
    ]
    curves = [(title, curve(masked, value), line) for title, value, line in panels]
    drawn = [one for one in curves if one[1]]
    if not drawn or len(drawn[0][1]) < 2:
        raise AibError("a curve needs masked models of at least two areas")
    with page_style():
        figure = Figure(figsize=(2.6 * len(drawn), 2.4), layout="constrained")
        axes = figure.subplots(ncols=len(drawn), squeeze=False)[0]
        for axis, (title, found, line) in zip(axes, drawn, strict=True):
            axis.plot(list(found), [mean(values) for values in found.values()], color=COLORS[0])
            for area, values in found.items():
                axis.plot([area] * len(values), values, "o", color=COLORS[0], markersize=4)
            if known := [value for value in line if value is not None]:
                axis.axhline(mean(known), color=GRAY, linestyle="--", label="plain network")
                axis.legend()
            axis.set_title(title, loc="left")
            axis.set_xlabel("area that training allows")
    return figure


def main(argv: list[str] | None = None) -> None:
    """Entry point of `python -m tools.areas`."""
    parser = argparse.ArgumentParser(prog="python -m tools.areas", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="files of runs in results/")
    parser.add_argument("out", type=Path, help="the PNG to write")
    options = parser.parse_args(argv)
    runs = [
        run for path in options.results for run in read_results(path.parent).files[path.stem].runs
    ]
    save_figure(draw_areas(runs), options.out)


if __name__ == "__main__":
    main()
