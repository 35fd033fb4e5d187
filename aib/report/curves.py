"""The charts of one run: training, anchors, calibration, faithfulness, randomisation."""

import math
from collections.abc import Sequence
from typing import Any

from aib.interpret.tables import NAMES
from aib.report.calibration import Reliability
from aib.report.html import chart, charts
from aib.report.svg import Series, bar_chart, line_chart

POINTS = 400  # of a curve; more than the pixels it has


def training(metrics: Sequence[dict[str, Any]]) -> str:
    """Loss, error, bits, and how many anchors are in use."""
    rows = thinned([row for row in metrics if "nll" in row])
    if not rows:
        return ""
    steps = [row["step"] for row in rows]
    held = [row for row in metrics if "validation" in row]
    error = [Series("training", steps, [row["error"] for row in rows])]
    if held:
        values = [row["validation"]["top1_error"] for row in held]
        error.append(Series("held out", [row["step"] for row in held], values, color=1))
    loss = [
        Series("total", steps, [row["total"] for row in rows], color=5),
        Series("-log likelihood", steps, [row["nll"] for row in rows]),
    ]
    bits = [Series("", steps, [row["kl"] / math.log(2) for row in rows], color=2)]
    used = [row for row in rows if row.get("perplexity") is not None]
    in_use = [Series("", [r["step"] for r in used], [r["perplexity"] for r in used], color=4)]
    last = rows[-1]
    has_kl = any(row["kl"] for row in rows)
    return charts(
        chart(
            "Error",
            line_chart(
                error,
                f"Training error over {steps[-1]:,} steps, at the end {last['error']:.1f}%",
                x_label="step",
                y_label="%",
            ),
        ),
        chart(
            "Loss",
            line_chart(
                loss,
                f"Loss over training steps, at the end {last['total']:.3f}",
                x_label="step",
                y_label="nats",
            ),
        ),
        chart(
            "Information in the latent",
            line_chart(
                bits,
                f"KL in bits over training steps, at the end {last['kl'] / math.log(2):.1f}",
                x_label="step",
                y_label="bits an image",
            ),
        )
        if has_kl
        else "",
        chart(
            "Anchors in use (perplexity)",
            line_chart(
                in_use,
                "Perplexity of the anchors over training steps",
                x_label="step",
                y_label="anchors",
            ),
        )
        if used
        else "",
    )


def anchors(metrics: Sequence[dict[str, Any]], information: dict[str, Any] | None) -> str:
    """Where the anchors went, and how often each is taken on test images."""
    rows = thinned([row for row in metrics if "anchors" in row])
    moved = ""
    if rows:
        epochs = [row["epoch"] + 1 for row in rows]
        lines = [
            Series("", epochs, [row["anchors"][i] for row in rows], color=i % 5, thin=True)
            for i in range(len(rows[0]["anchors"]))
        ]
        moved = line_chart(
            lines, "Value of each anchor after each epoch", x_label="epoch", y_label="value"
        )
    used = ""
    if information and information.get("anchor_shares"):
        shares, values = information["anchor_shares"], information["anchors"]
        names = [f"{v:.3f}: {100 * s:.1f}%" for v, s in zip(values, shares, strict=True)]
        used = bar_chart(
            [i + 0.5 for i in range(len(shares) + 1)],
            [100 * share for share in shares],
            "Share of places that take each anchor, lowest value first: " + ", ".join(names),
            x_label="anchor, in rising order of value",
            y_label="% of places",
            names=names,
        )
    return charts(chart("Anchors over training", moved), chart("Anchor usage on test images", used))


def calibration(found: Reliability) -> str:
    """Accuracy against confidence, and how many images have which confidence."""
    accuracy = [100 * a if n else 0.0 for a, n in zip(found.accuracy, found.counts, strict=True)]
    share = [100 * n / found.images for n in found.counts]
    percent = [100 * edge for edge in found.edges]
    names = [f"{n} images, {a:.1f}% right" for n, a in zip(found.counts, accuracy, strict=True)]
    ideal = Series("as sure as right", [0, 100], [0, 100], color=1, dashed=True)
    return charts(
        chart(
            "Reliability",
            bar_chart(
                percent,
                accuracy,
                "Accuracy in bins of confidence",
                x_label="confidence, %",
                y_label="accuracy, %",
                y_range=(0, 100),
                lines=[ideal],
                names=names,
            ),
        ),
        chart(
            "How sure the model is",
            bar_chart(
                percent,
                share,
                "Share of images in bins of confidence",
                x_label="confidence, %",
                y_label="% of images",
                names=names,
            ),
        ),
    )


def faithfulness(found: dict[str, dict[str, Any]]) -> str:
    """Deletion and insertion curves by source of maps."""
    drawn = []
    for kind, good in (
        ("deletion", "falling early is good"),
        ("insertion", "rising early is good"),
    ):
        lines = []
        for i, (source, figures) in enumerate(found.items()):
            curve = figures[f"{kind}_curve"]
            x = [100 * j / (len(curve) - 1) for j in range(len(curve))]
            control = source in ("centre", "random")
            y = [100 * value for value in curve]
            lines.append(Series(SHORT[source], x, y, color=i, dashed=control))
        areas = ", ".join(f"{NAMES[s]} {f[kind]:.3f}" for s, f in found.items())
        drawn.append(
            chart(
                f"{kind.capitalize()}: {good}",
                line_chart(
                    lines,
                    f"{kind} curves; areas: {areas}",
                    x_label=f"pixels {'taken away' if kind == 'deletion' else 'put in'}, %",
                    y_label="",
                ),
            )
        )
    return charts(*drawn)


SHORT = {
    "own": "own",
    "gradcam": "Grad-CAM",
    "integrated_gradients": "Int. Grad.",
    "centre": "centre",
    "random": "random",
}


def randomisation(changes: Sequence[dict[str, Any]]) -> str:
    """The map's likeness to itself as layers are randomised from the output's end."""
    if not changes:
        return ""
    x = list(range(len(changes) + 1))
    lines = [
        Series(
            name,
            x,
            [1.0] + [math.nan if c[key] is None else c[key] for c in changes],
            color=color,
        )
        for key, name, color in (("cosine", "cosine", 5), ("pearson", "correlation", 0))
    ]
    return charts(
        chart(
            "The map as layers are randomised",
            line_chart(
                lines,
                "Similarity of the map to itself as layers are randomised from the output on",
                x_label="layers randomised, from the output to the input",
                y_label="",
                y_range=(min(0.0, *(v for s in lines for v in s.y if math.isfinite(v))), 1.05),
            ),
        )
    )


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most POINTS rows, the last among them."""
    step = max(1, math.ceil(len(rows) / POINTS))
    kept = rows[::step]
    return kept if not rows or kept[-1] is rows[-1] else [*kept, rows[-1]]
