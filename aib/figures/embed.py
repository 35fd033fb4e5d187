"""Charts: matplotlib figures in one style, and pictures inside an HTML page."""

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Readable on a light page and on a dark one.
COLORS = ("#2a7fd4", "#d1495b", "#1f9d65", "#b7791f", "#8a63d2", "#7d8794")
GRAY, RULE = COLORS[-1], "#80808040"


@contextmanager
def page_style() -> Iterator[None]:
    """Draw matplotlib figures in this style inside this context."""
    import matplotlib  # half a second: only where something is drawn
    from cycler import cycler

    flat: dict[str, Any] = dict.fromkeys(("axes.edgecolor", "grid.color"), RULE)
    flat |= dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), GRAY)
    flat |= dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0.0)
    flat |= {f"axes.spines.{side}": False for side in ("left", "top", "right")}
    style: Any = flat | {
        "font.size": 8.0,
        "axes.labelsize": 8.0,
        "axes.titlesize": 8.0,
        "axes.prop_cycle": cycler(color=COLORS),
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "axes.formatter.useoffset": False,
        "grid.linewidth": 0.7,
        "lines.linewidth": 1.5,
        "legend.frameon": False,
        "legend.fontsize": 8.0,
        "text.parse_math": False,  # a name may hold a $
        "svg.fonttype": "none",
    }
    with matplotlib.rc_context(style):
        yield


def svg_uri(figure: Any) -> str:
    """A figure as the data URI of an SVG without background."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _data_uri(buffer.getvalue(), "svg+xml")


def png_uri(content: bytes) -> str:
    """The content of a PNG file as a data URI."""
    return _data_uri(content, "png")


def _data_uri(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
