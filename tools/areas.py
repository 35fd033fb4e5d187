"""Draw results against the area of the mask: `python -m tools.areas results/FILE.json... OUT.png`.

Error, accuracy lost with another image's map, and boxes: one point per run, a line through the
means. A dashed line is the plain network.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from aib.config.options import ModelOptions
from aib.figures.embed import COLORS, GRAY, page_style
from aib.figures.picture import save_figure
from tools.results.maps import find
from tools.results.store import StoredRun, read_results

MASKED = "_aib_masked"  # what a masked model's name has and its plain network's has not
Value = Callable[[StoredRun], float | None]


def of_maps(*path: str | int) -> Value:
    """A value of a run's maps, in percent."""

    def value(run: StoredRun) -> float | None:
        share = find(run.maps, *path)
        return None if share is None else 100 * float(share)

    return value


# Title, value of a masked run, value of a plain run.
PANELS: list[tuple[str, Value, Value]] = [
    ("test error, %", lambda run: run.error, lambda run: run.error),
    ("another image's map, points lost", of_maps("drops", "another", 0), lambda run: None),
    (
        "MaxBoxAccV2, largest component, %",
        of_maps("located", "own", "largest_box_acc", 0),
        of_maps("located", "gradcam", "largest_box_acc", 0),
    ),
]


def draw_areas(runs: Sequence[StoredRun]) -> Any:
    """Return the picture as a matplotlib figure."""
    from matplotlib.figure import Figure

    masked = [run for run in runs if run.model.endswith(MASKED)]
    plain = [run for run in runs if run.model + MASKED in {other.model for other in masked}]
    with page_style():
        figure = Figure(figsize=(2.6 * len(PANELS), 2.4), layout="constrained")
        axes = figure.subplots(ncols=len(PANELS))
        for axis, (title, of_masked, of_plain) in zip(axes, PANELS, strict=True):
            points = [
                (float(run.recipe.get("area", ModelOptions.area)), value)
                for run in masked
                if (value := of_masked(run)) is not None
            ]
            areas = sorted({area for area, _ in points})
            means = [mean(value for at, value in points if at == area) for area in areas]
            axis.plot(*zip(*points, strict=True), "o", color=COLORS[0], markersize=4)
            axis.plot(areas, means, color=COLORS[0])
            if values := [value for run in plain if (value := of_plain(run)) is not None]:
                axis.axhline(mean(values), color=GRAY, linestyle="--", label="plain network")
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
