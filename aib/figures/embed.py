"""Pictures inside an HTML page: matplotlib figures as inline SVG, pixels as data URIs."""

import base64
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

# In an SVG each of these colours becomes the page's CSS variable, which a dark page redefines.
COLORS = ("#0b6bcb", "#d1495b", "#1a8f5a", "#b7791f", "#7a4fc9", "#5d6673")
GRAY, RULE = COLORS[-1], "#e2e4e8"
VARIABLES = {RULE: "--rule"} | {color: f"--c{i}" for i, color in enumerate(COLORS)}
HOVER = "hover:"  # an artist's gid that begins so is what the browser shows over it


@contextmanager
def page_style() -> Iterator[None]:
    """Draw matplotlib figures in the page's style inside this context."""
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
    }
    with matplotlib.rc_context(style):
        yield


def to_svg(figure: Any, description: str) -> str:
    """A figure drawn in `page_style` as an <svg> element that inherits the page's colours."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    unwanted = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # The salt keeps the ids of markers and clip paths apart from those of other figures.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": description}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=unwanted)
    text = buffer.getvalue()
    view_box = re.search(r'viewBox="([^"]+)"', text)
    assert view_box is not None
    inner = text[text.index(">", text.index("<svg")) + 1 :]
    inner = re.sub(r"<!--.*?-->|<style.*?</style>", "", inner, flags=re.DOTALL)
    inner = re.sub(rf'<g id="{HOVER}([^"]*)">', r"<g><title>\1</title>", inner)
    inner = inner.replace("xlink:href", "href")
    used = set(re.findall(r"#(\w+)", inner))
    inner = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", inner)
    # The page's fonts; matplotlib's versions write theirs in two ways.
    inner = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", inner)
    inner = re.sub(r"font-family: [^;\"]*;? ?", "", inner)
    for color, variable in VARIABLES.items():
        inner = inner.replace(color, f"var({variable})")
    inner = re.sub(r"\s*\n\s*", " ", inner).strip()
    label = escape(description)
    return f'<svg viewBox="{view_box[1]}" role="img" aria-label="{label}">{inner}'


def png_uri(content: bytes) -> str:
    """The content of a PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(content).decode()
