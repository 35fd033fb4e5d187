"""The charts of one run: training, anchors, calibration, faithfulness, layer randomisation.

A chart is a pair of its caption and its <svg> element.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from aib.evaluation.error import CalibrationBins
from aib.figures.embed import COLORS, HOVER, page_style, to_svg
from aib.interpret.measured import Faithfulness, Information, LayerChange

SIZE = (4.4, 2.5)  # inches
MAX_POINTS = 400  # of a curve; more than the pixels it has
SHORT_NAMES = {"gradcam": "Grad-CAM"}
FAITHFULNESS = {
    "deletion": ("Deletion: falling early is good", "pixels removed, %"),
    "insertion": ("Insertion: rising early is good", "pixels inserted, %"),
    "road_morf": ("ROAD, most relevant first: falling early is good", "pixels imputed, %"),
    "road_lerf": ("ROAD, least relevant first: falling late is good", "pixels imputed, %"),
}

Chart = tuple[str, str]


class Line(NamedTuple):
    """One line of a chart."""

    x: Sequence[float]
    y: Any  # numbers; None or NaN leaves a gap
    name: str = ""  # in the legend
    color: int = 0
    style: str = "-"
    width: float = 1.5


def line_chart(
    caption: str,
    lines: Sequence[Line],
    x_label: str,
    y_label: str = "",
    y_range: tuple[float, float] | None = None,
) -> list[Chart]:
    """Lines over common axes; no chart where no value is finite."""
    lines = [line._replace(y=np.asarray(line.y, float)) for line in lines]  # None becomes NaN
    if not any(np.isfinite(line.y).any() for line in lines):
        return []
    ends = ", ".join(f"{line.name} {line.y[-1]:.3g}".strip() for line in lines if len(line.y))
    unit = f" ({y_label})" if y_label else ""
    with _chart(caption, f"at the end {ends}{unit}", x_label, y_label) as (axis, drawn):
        for line in lines:
            axis.plot(
                np.asarray(line.x, float),
                line.y,
                line.style,
                color=COLORS[line.color % len(COLORS)],
                label=line.name if line.name and len(lines) > 1 else None,
                linewidth=line.width,
                marker="o" if len(line.x) == 1 else None,
                markersize=4,
            )
        axis.margins(x=0.01)
        if y_range:
            axis.set_ylim(*y_range)
    return drawn


def bar_chart(
    caption: str,
    edges: Sequence[float],
    values: Sequence[float],
    x_label: str,
    y_label: str,
    hover: Sequence[str],
    diagonal: str = "",
) -> list[Chart]:
    """Bars between edges [n+1], each with a text shown on hover; `diagonal` names the line y=x."""
    with _chart(caption, ", ".join(hover), x_label, y_label) as (axis, drawn):
        left, right = np.asarray(edges[:-1], float), np.asarray(edges[1:], float)
        bars = axis.bar(left, values, (right - left) * 0.93, align="edge", alpha=0.75)
        for bar, text in zip(bars, hover, strict=True):
            bar.set_gid(HOVER + text)
        axis.set_xlim(edges[0], edges[-1])
        if diagonal:
            ends = (edges[0], edges[-1])
            axis.plot(ends, ends, "--", color=COLORS[1], label=diagonal)
            axis.set_ylim(*ends)
    return drawn


@contextmanager
def _chart(
    caption: str, content: str, x_label: str, y_label: str
) -> Iterator[tuple[Any, list[Chart]]]:
    """Axes to draw in, and the list that then holds the chart."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    drawn: list[Chart] = []
    with page_style():
        figure = Figure(figsize=SIZE, layout="constrained")
        axis = figure.subplots()
        yield axis, drawn
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # no half steps
        axis.set_xlabel(x_label)
        axis.set_ylabel(y_label)
        if axis.get_legend_handles_labels()[0]:
            figure.legend(loc="outside upper right", ncols=5, handlelength=1.4, columnspacing=1.2)
        drawn.append((caption, to_svg(figure, f"{caption}, against {x_label}: {content}")))


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


def anchor_charts(metrics: Sequence[dict[str, Any]], information: Information) -> list[Chart]:
    """The anchors' values over training, and how often each is used on the images of the study."""
    rows = thin_out([row for row in metrics if "anchors" in row])
    epochs = [row["epoch"] + 1 for row in rows]
    tracks = zip(*(row["anchors"] for row in rows), strict=True)
    lines = [Line(epochs, track, color=i % 5, width=0.8) for i, track in enumerate(tracks)]
    drawn = line_chart("Anchors over training", lines, "epoch", "value")
    if information.anchor_shares and information.anchors:
        shares, levels = information.anchor_shares, information.anchors
        drawn += bar_chart(
            "Anchor usage on the images measured",
            [i + 0.5 for i in range(len(shares) + 1)],
            [100 * share for share in shares],
            "anchor, in increasing order of value",
            "% of positions",
            [f"{v:.3f}: {100 * s:.1f}%" for v, s in zip(levels, shares, strict=True)],
        )
    return drawn


def calibration_charts(bins: CalibrationBins) -> list[Chart]:
    """Accuracy against confidence, and the distribution of confidence."""
    percent = [100 * i / len(bins.images) for i in range(len(bins.images) + 1)]
    accuracy = [100 * value for value in bins.accuracy]
    share = [100 * n / max(sum(bins.images), 1) for n in bins.images]
    hover = [f"{n} images, {a:.1f}% right" for n, a in zip(bins.images, accuracy, strict=True)]
    x, ideal = "confidence, %", "perfectly calibrated"
    return [
        *bar_chart("Reliability", percent, accuracy, x, "accuracy, %", hover, diagonal=ideal),
        *bar_chart("Distribution of confidence", percent, share, x, "% of images", hover),
    ]


def faithfulness_charts(found: Mapping[str, Faithfulness]) -> list[Chart]:
    """Deletion, insertion and ROAD curves of each kind of map."""
    drawn: list[Chart] = []
    for kind, (caption, x_label) in FAITHFULNESS.items():
        lines = []
        for i, (source, metrics) in enumerate(found.items()):
            curve = [100 * value for value in getattr(metrics, f"{kind}_curve") or ()]
            x = [100 * j / (len(curve) - 1) for j in range(len(curve))]
            if kind.startswith("road"):
                x = [100 * fraction for fraction in metrics.road_fractions or ()]
            style = "--" if source in ("centre", "random") else "-"
            lines.append(Line(x, curve, SHORT_NAMES.get(source, source), i, style))
        drawn += line_chart(caption, lines, x_label, "probability of the class, %")
    return drawn


def randomisation_chart(changes: Sequence[LayerChange]) -> list[Chart]:
    """Similarity of the map to itself as layers are randomised from the output on."""
    x = range(len(changes) + 1)
    cosines = [1.0, *(c.cosine for c in changes)]
    correlations = [1.0, *(c.pearson for c in changes)]
    lowest = min(value for value in (*cosines, *correlations) if value is not None)
    chart = line_chart(
        "The map as layers are randomised",
        [Line(x, cosines, "cosine", 5), Line(x, correlations, "correlation")],
        "layers randomised, from the output to the input",
        y_range=(min(0.0, 1.05 * lowest), 1.05),
    )
    return chart if changes else []


def thin_out(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most about MAX_POINTS rows, the last among them."""
    return rows[:: -math.ceil(max(len(rows), 1) / MAX_POINTS)][::-1]
