"""The charts of one run: training, anchors, calibration, faithfulness, layer randomisation."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aib.evaluation import CalibrationBins
from aib.figures.embed import COLORS, HOVER, page_style, to_svg
from aib.figures.table import number
from aib.interpret.metrics.sanity import LayerChange
from aib.interpret.results import Faithfulness, Information
from aib.interpret.tables import NAMES, map_name
from aib.report.blocks import Chart, Charts

SIZE = (4.4, 2.5)  # inches
MAX_POINTS = 400  # of a curve; more than the pixels it has
SHORT_NAMES = NAMES | {"own": "own", "integrated_gradients": "Int. Grad."}
SHORT_NAMES |= {"centre": "centre", "random": "random"}


@dataclass(frozen=True)
class Line:
    """One line of a chart."""

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""  # in the legend
    color: int = 0
    style: str = "-"
    width: float = 1.5


def line_chart(
    caption: str,
    lines: Sequence[Line],
    description: str,
    x_label: str,
    y_label: str = "",
    y_range: tuple[float, float] | None = None,
) -> list[Chart]:
    """Lines over common axes; no chart where no value is finite."""
    values = [(x, y) for line in lines for x, y in zip(line.x, line.y, strict=True)]
    if not any(math.isfinite(y) for _, y in values):
        return []

    def draw(axis: Any) -> None:
        for line in lines:
            marker = "o" if len(line.x) == 1 else None
            axis.plot(
                np.asarray(line.x, float),
                np.asarray(line.y, float),
                line.style,
                color=COLORS[line.color % len(COLORS)],
                label=line.name if line.name and len(lines) > 1 else None,
                linewidth=line.width,
                marker=marker,
                markersize=4,
            )
        axis.margins(x=0.01)
        if all(isinstance(x, int) for x, _ in values):
            _integer_ticks(axis)
        if y_range:
            axis.set_ylim(*y_range)

    return [_chart(caption, draw, description, x_label, y_label)]


def bar_chart(
    caption: str,
    edges: Sequence[float],
    values: Sequence[float],
    description: str,
    x_label: str,
    y_label: str,
    hover: Sequence[str],
    diagonal: str = "",
) -> Chart:
    """Bars between edges [n+1], each with a text shown on hover; `diagonal` names the line y=x."""

    def draw(axis: Any) -> None:
        left, right = np.asarray(edges[:-1], float), np.asarray(edges[1:], float)
        drawn = axis.bar(left, values, (right - left) * 0.93, align="edge", alpha=0.75)
        for bar, text in zip(drawn, hover, strict=True):
            bar.set_gid(HOVER + text)
        axis.set_xlim(edges[0], edges[-1])
        _integer_ticks(axis)
        if diagonal:
            ends = (edges[0], edges[-1])
            axis.plot(ends, ends, "--", color=COLORS[1], label=diagonal)
            axis.set_ylim(*ends)

    return _chart(caption, draw, description, x_label, y_label)


def _integer_ticks(axis: Any) -> None:
    """Steps, epochs, layers and anchors have no halves."""
    axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _chart(
    caption: str, draw: Callable[[Any], None], description: str, x_label: str, y_label: str
) -> Chart:
    """A chart with its axes' names, and a legend in one row above it."""
    from matplotlib.figure import Figure

    with page_style():
        figure = Figure(figsize=SIZE, layout="constrained")
        axis = figure.subplots()
        draw(axis)
        axis.set_xlabel(x_label)
        axis.set_title(y_label, loc="left")
        if handles := axis.get_legend_handles_labels()[0]:
            axis.legend(
                loc="lower right",
                bbox_to_anchor=(1.0, 1.0),
                ncols=len(handles),
                handlelength=1.4,
                columnspacing=1.2,
                borderaxespad=0.2,
            )
        return Chart(caption, to_svg(figure, description))


def training_charts(metrics: Sequence[dict[str, Any]]) -> Charts | None:
    """Error, loss, bits and anchors in use over the training steps."""
    rows = thin_out([row for row in metrics if "nll" in row])
    if not rows:
        return None
    steps = [row["step"] for row in rows]
    held_out = [row for row in metrics if "validation" in row]
    error = [Line(steps, [row["error"] for row in rows], "training")]
    if held_out:
        errors = [row["validation"]["top1_error"] for row in held_out]
        error.append(Line([row["step"] for row in held_out], errors, "held out", color=1))
    loss = [
        Line(steps, [row["total"] for row in rows], "total", color=5),
        Line(steps, [row["nll"] for row in rows], "negative log-likelihood"),
    ]
    bits = [row["kl"] / math.log(2) for row in rows]
    used = [row for row in rows if row.get("perplexity") is not None]
    in_use = Line([r["step"] for r in used], [r["perplexity"] for r in used], color=4)
    drawn = line_chart(
        "Error",
        error,
        f"Training error over {steps[-1]:,} steps, at the end {rows[-1]['error']:.1f}%",
        "step",
        "%",
    )
    drawn += line_chart(
        "Loss",
        loss,
        f"Loss over training steps, at the end {rows[-1]['total']:.3f}",
        "step",
        "nats",
    )
    if any(bits):
        drawn += line_chart(
            "Information in the latent",
            [Line(steps, bits, color=2)],
            f"KL in bits over training steps, at the end {bits[-1]:.1f}",
            "step",
            "bits per image",
        )
    open_area = [row for row in rows if row.get("mask_bits") is not None]
    drawn += line_chart(
        "Area of the mask",
        [Line([r["step"] for r in open_area], [100 * r["area"] for r in open_area], color=3)],
        "Mean of the mask over training steps",
        "step",
        "% of each image",
    )
    drawn += line_chart(
        "Anchors in use (perplexity)",
        [in_use],
        "Perplexity of the anchors over training steps",
        "step",
        "anchors",
    )
    return Charts(drawn)


def anchor_charts(
    metrics: Sequence[dict[str, Any]], information: Information | None
) -> Charts | None:
    """The anchors' values over training, and how often each is used on test images."""
    rows = thin_out([row for row in metrics if "anchors" in row])
    drawn: list[Chart] = []
    if rows:
        epochs = [row["epoch"] + 1 for row in rows]
        tracks = zip(*(row["anchors"] for row in rows), strict=True)
        drawn += line_chart(
            "Anchors over training",
            [Line(epochs, track, color=i % 5, width=0.8) for i, track in enumerate(tracks)],
            "Value of each anchor after each epoch",
            "epoch",
            "value",
        )
    if information and information.anchor_shares and information.anchors:
        shares, levels = information.anchor_shares, information.anchors
        names = [f"{v:.3f}: {100 * s:.1f}%" for v, s in zip(levels, shares, strict=True)]
        drawn.append(
            bar_chart(
                "Anchor usage on test images",
                [i + 0.5 for i in range(len(shares) + 1)],
                [100 * share for share in shares],
                "Share of positions that use each anchor, lowest value first: " + ", ".join(names),
                "anchor, in increasing order of value",
                "% of positions",
                names,
            )
        )
    return Charts(drawn) if drawn else None


def calibration_charts(bins: CalibrationBins) -> Charts:
    """Accuracy against confidence, and the distribution of confidence."""
    percent = [100 * i / len(bins.images) for i in range(len(bins.images) + 1)]
    accuracy = [100 * value for value in bins.accuracy]
    share = [100 * n / max(sum(bins.images), 1) for n in bins.images]
    hover = [f"{n} images, {a:.1f}% right" for n, a in zip(bins.images, accuracy, strict=True)]
    return Charts(
        [
            bar_chart(
                "Reliability",
                percent,
                accuracy,
                "Accuracy in bins of confidence",
                "confidence, %",
                "accuracy, %",
                hover,
                diagonal="perfectly calibrated",
            ),
            bar_chart(
                "Distribution of confidence",
                percent,
                share,
                "Share of images in bins of confidence",
                "confidence, %",
                "% of images",
                hover,
            ),
        ]
    )


def faithfulness_charts(found: Mapping[str, Faithfulness]) -> list[Chart]:
    """Deletion, insertion and ROAD curves of each source of maps."""
    drawn: list[Chart] = []
    for kind, title, good, action in (
        ("deletion", "Deletion", "falling early is good", "removed"),
        ("insertion", "Insertion", "rising early is good", "inserted"),
        ("road_morf", "ROAD, most relevant first", "falling early is good", "imputed"),
        ("road_lerf", "ROAD, least relevant first", "falling late is good", "imputed"),
    ):
        lines, areas = [], []
        for i, (source, metrics) in enumerate(found.items()):
            area = getattr(metrics, kind)
            if area is None:  # an older study
                continue
            curve = [100 * value for value in getattr(metrics, f"{kind}_curve") or ()]
            x = [100 * j / (len(curve) - 1) for j in range(len(curve))]
            if kind.startswith("road"):
                x = [100 * fraction for fraction in metrics.road_fractions or ()]
            style = "--" if source in ("centre", "random") else "-"
            lines.append(Line(x, curve, SHORT_NAMES.get(source, source), i, style))
            areas.append(f"{map_name(source)} {number(area.value, 3)}")
        drawn += line_chart(
            f"{title}: {good}",
            lines,
            f"{title} curves; areas: {', '.join(areas)}",
            f"pixels {action}, %",
        )
    return drawn


def randomisation_chart(changes: Sequence[LayerChange]) -> list[Chart]:
    """Similarity of the map to itself as layers are randomised from the output on."""
    x = list(range(len(changes) + 1))
    lines = [
        Line(x, [1.0, *(_or_nan(getattr(c, key)) for c in changes)], name, color)
        for key, name, color in (("cosine", "cosine", 5), ("pearson", "correlation", 0))
    ]
    lowest = min(v for line in lines for v in line.y if math.isfinite(v))
    return line_chart(
        "The map as layers are randomised",
        lines if changes else [],
        "Similarity of the map to itself as layers are randomised from the output on",
        "layers randomised, from the output to the input",
        y_range=(min(0.0, 1.05 * lowest), 1.05),
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def thin_out(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most about MAX_POINTS rows, the last among them."""
    step = max(1, math.ceil(len(rows) / MAX_POINTS))
    kept = rows[::step]
    return kept if not rows or kept[-1] is rows[-1] else [*kept, rows[-1]]
