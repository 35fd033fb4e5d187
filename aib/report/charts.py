"""The charts of a training."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from aib.figures.embed import COLORS, page_style, svg_uri

SIZE = (4.4, 2.5)  # inches
MAX_POINTS = 400  # of a curve; more than the pixels it has


class Chart(NamedTuple):
    """A drawing, and its content for readers who do not see it."""

    caption: str
    uri: str
    content: str


class Line(NamedTuple):
    """One line of a chart."""

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""  # in the legend
    color: int = 0


def line_chart(caption: str, lines: Sequence[Line], x_label: str, y_label: str) -> list[Chart]:
    """Lines over common axes; no chart where no value is finite."""
    if not any(np.isfinite(line.y).any() for line in lines):
        return []
    with page_style():
        axis = _axes(x_label, y_label)
        for line in lines:
            axis.plot(
                line.x,
                line.y,
                color=COLORS[line.color],
                label=line.name or None,
                marker="o" if len(line.x) == 1 else None,
                markersize=4,
            )
        axis.margins(x=0.01)
        ends = ", ".join(f"{line.name} {line.y[-1]:.3g}".strip() for line in lines if line.y)
        return [_chart(caption, axis, f"at the end {ends} ({y_label})")]


def training_charts(metrics: Sequence[dict[str, Any]], exact_kl: bool = True) -> list[Chart]:
    """Error, loss, bits and anchors in use over the training steps.

    Without `exact_kl` the KL term is the released code's penalty: no information, and no nats.
    """
    trained = thin_out([row for row in metrics if "nll" in row])
    held_out = [row | row["validation"] for row in metrics if "validation" in row]
    masked = [row for row in trained if row.get("mask_bits") is not None]

    def line(
        key: str, name: str = "", color: int = 0, times: float = 1.0, rows: Any = trained
    ) -> Line:
        has = [row for row in rows if row.get(key) is not None]
        return Line([row["step"] for row in has], [times * row[key] for row in has], name, color)

    errors = [line("error", "training")]
    errors += [line("top1_error", "held out", 1, rows=held_out)] if held_out else []
    losses = [line("total", "total", 5), line("nll", "negative log-likelihood")]
    bits = line("kl", color=2, times=1 / math.log(2))
    latent = [bits] if exact_kl and any(bits.y) else []
    area = line("area", color=3, times=100, rows=masked)
    anchors = line("perplexity", color=4)
    return [
        *line_chart("Error", errors, "step", "%"),
        *line_chart("Loss", losses, "step", "nats" if exact_kl else "nats; the total in bits"),
        *line_chart("Information in the latent", latent, "step", "bits per image"),
        *line_chart("Area of the mask", [area], "step", "% of each image"),
        *line_chart("Anchors in use since the epoch began", [anchors], "step", "perplexity"),
    ]


def _axes(x_label: str, y_label: str) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    axis = Figure(figsize=SIZE, layout="constrained").subplots()
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # no half steps
    axis.set(xlabel=x_label, ylabel=y_label)
    return axis


def _chart(caption: str, axis: Any, content: str) -> Chart:
    figure = axis.figure
    if axis.get_legend_handles_labels()[0]:
        figure.legend(loc="outside upper right", ncols=5, handlelength=1.4, columnspacing=1.2)
    about = f"{caption}, against {axis.get_xlabel()}: {content}"
    return Chart(caption, svg_uri(figure), about)


def thin_out(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most about MAX_POINTS rows, the last among them."""
    return rows[:: -math.ceil(max(len(rows), 1) / MAX_POINTS)][::-1]
