"""Small charts as inline SVG: they take the page's colours, light or dark, and scale sharply."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 30, 40
LETTER = 7.2  # mean width of a letter at the charts' font size, for the legend
COLORS = 6  # --c0 to --c5 of the style sheet


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    name: str  # "" keeps it out of the legend
    x: Sequence[float]
    y: Sequence[float]
    color: int = 0
    dashed: bool = False
    thin: bool = False
    dots: bool = False  # mark each point
    spread: Sequence[float] = ()  # half the height of each point's error bar


def line_chart(
    series: Sequence[Series],
    description: str,
    *,
    x_label: str = "",
    y_label: str = "",
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    x_ticks: Sequence[tuple[float, str]] = (),
) -> str:
    """Lines over common axes. `x_ticks` are places with what stands there, instead of numbers."""
    points = [(x, y) for s in series for x, y in zip(s.x, s.y, strict=True) if math.isfinite(y)]
    if not points:
        return ""
    bars = [(y, e) for s in series if s.spread for y, e in zip(s.y, s.spread, strict=True)]
    ends = [end for y, e in bars if math.isfinite(y) for end in (y - e, y + e)]
    frame = _Frame(
        x_range or _span([x for x, _ in points], pad=0),
        y_range or _span([*(y for _, y in points), *ends], pad=0.04),
        whole=all(isinstance(x, int) for x, _ in points),
        named=x_ticks,
    )
    lines = [piece for s in series for piece in (frame.path(s), *frame.marks(s))]
    return frame.svg([*lines, *_legend(series)], description, x_label, y_label)


def bar_chart(
    edges: Sequence[float],
    values: Sequence[float],
    description: str,
    *,
    x_label: str = "",
    y_label: str = "",
    y_range: tuple[float, float] | None = None,
    lines: Sequence[Series] = (),
    names: Sequence[str] = (),
) -> str:
    """Bars between edges [n+1], with lines over them; `names` label the bars when hovered."""
    frame = _Frame((edges[0], edges[-1]), y_range or (0, max([*values, 1e-12]) * 1.05))
    bars = []
    for i, value in enumerate(values):
        left, right = frame.x(edges[i]), frame.x(edges[i + 1])
        top, base = frame.y(value), frame.y(max(0.0, frame.y_range[0]))
        hover = f"<title>{escape(names[i])}</title>" if names else ""
        bars.append(
            f'<rect class="bar" x="{left + 1:.1f}" y="{top:.1f}" '
            f'width="{max(right - left - 2, 1):.1f}" height="{max(base - top, 0):.1f}">'
            f"{hover}</rect>"
        )
    drawn = [*bars, *(frame.path(s) for s in lines), *_legend(lines)]
    return frame.svg(drawn, description, x_label, y_label)


class _Frame:
    """The plotting area and how values map to it."""

    def __init__(
        self,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        whole: bool = False,
        named: Sequence[tuple[float, str]] = (),
    ):
        self.x_range, self.y_range, self.whole, self.named = x_range, y_range, whole, named

    def x_ticks(self) -> Sequence[tuple[float, str]]:
        """Epochs, steps and layers have no halves."""
        round_ones = [t for t in ticks(*self.x_range) if not self.whole or float(t).is_integer()]
        return self.named or [(tick, _text(tick)) for tick in round_ones]

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def path(self, s: Series) -> str:
        pairs = [(x, y) for x, y in zip(s.x, s.y, strict=True) if math.isfinite(y)]
        kind = f"line c{s.color % COLORS}" + " dashed" * s.dashed + " thin" * s.thin
        if len(pairs) == 1:
            x, y = pairs[0]
            return f'<circle class="{kind}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3"/>'
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in pairs)
        return f'<polyline class="{kind}" points="{points}"/>'

    def marks(self, s: Series) -> list[str]:
        """Dots and error bars."""
        kind, drawn = f"line c{s.color % COLORS}", []
        for x, y in zip(s.x, s.y, strict=True) if s.dots else ():
            if math.isfinite(y):
                place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}"'
                drawn.append(f'<circle class="{kind}" {place} r="2.5"/>')
        for x, y, e in zip(s.x, s.y, s.spread, strict=True) if s.spread else ():
            if math.isfinite(y) and e > 0:
                at, low, high = self.x(x), self.y(y - e), self.y(y + e)
                caps = "".join(f"M{at - 4:.1f},{end:.1f}h8" for end in (low, high))
                path = f"M{at:.1f},{low:.1f}V{high:.1f}{caps}"
                drawn.append(f'<path class="{kind} thin" d="{path}"/>')
        return drawn

    def svg(self, inner: Sequence[str], description: str, x_label: str, y_label: str) -> str:
        parts = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(description)}">'
        ]
        for tick in ticks(*self.y_range):
            y = self.y(tick)
            parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                f'<text class="tick end" x="{LEFT - 6}" y="{y + 4:.1f}">{_text(tick)}</text>'
            )
        for tick, words in self.x_ticks():
            x, y = self.x(tick), HEIGHT - BOTTOM + 16
            parts.append(f'<text class="tick mid" x="{x:.1f}" y="{y}">{escape(words)}</text>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="name mid" x="{middle}" y="{HEIGHT - 6}">{escape(x_label)}</text>'
        )
        parts.append(f'<text class="name" x="4" y="13">{escape(y_label)}</text>')
        return "".join([*parts, *inner, "</svg>"])


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round values from low to high."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _legend(series: Sequence[Series]) -> list[str]:
    """Names at the top right, in one row."""
    named = [s for s in series if s.name]
    if len(named) < 2:
        return []
    parts, x = [], WIDTH - RIGHT - sum(30 + LETTER * len(s.name) for s in named)
    for s in named:
        kind = f"line c{s.color % COLORS}" + " dashed" * s.dashed
        parts.append(f'<polyline class="{kind}" points="{x:.1f},9 {x + 14:.1f},9"/>')
        parts.append(f'<text class="name" x="{x + 18:.1f}" y="13">{escape(s.name)}</text>')
        x += 30 + LETTER * len(s.name)
    return parts


def _span(values: Sequence[float], pad: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    if high - low < 1e-12:
        return low - 0.5, high + 0.5
    return low - pad * (high - low), high + pad * (high - low)


def _text(value: float) -> str:
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.0e}"
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:g}"
