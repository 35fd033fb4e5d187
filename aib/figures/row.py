"""Panels side by side in one picture: an explanation, with its box and colour bars.

Drawn with Pillow: matplotlib takes a second to import and to draw them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from aib.figures.fonts import text_font
from aib.figures.overlay import MAP_COLORS, Array, color_table, colored

Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels; the last two exclusive
SIDE, GAP, BAR = 280, 16, 12  # pixels: longer side of a panel, between things, of a colour bar
TEXT, GREY = "black", "#666666"


class Panel(NamedTuple):
    """Values [h,w] in colours between `ends`, with a colour bar; or an RGB picture [H,W,3]."""

    title: str
    values: Array
    ends: tuple[float, float] | None = None  # None: no colour bar
    colors: str = MAP_COLORS
    box: Box | None = None  # drawn over it


def draw_row(panels: Sequence[Panel], frame: Box, *, title: str, subtitle: str = "") -> Image.Image:
    """Draw panels side by side. `frame` is where they lie in the coordinates of their boxes."""
    left, top, right, bottom = frame
    scale = SIDE / max(right - left, bottom - top)
    size = max(1, round(scale * (right - left))), max(1, round(scale * (bottom - top)))
    cells = [_draw_panel(panel, frame, size) for panel in panels]
    texts = [_draw_text(title, 18, bold=True), _draw_text(subtitle, 12, color=GREY)]
    width = max(sum(c.width + GAP for c in cells) - GAP, *(text.width for text in texts))
    depth = max(cell.height for cell in cells)
    heights = [texts[0].height, depth, texts[1].height]
    picture = Image.new("RGB", (width + 2 * GAP, sum(heights) + 4 * GAP), "white")
    for text, y in zip(texts, (GAP, 3 * GAP + heights[0] + depth), strict=True):
        picture.paste(text, ((picture.width - text.width) // 2, y))
    spare = (width - sum(cell.width for cell in cells)) // max(len(cells) - 1, 1)
    x = GAP
    for cell in cells:  # titles have one or two lines: panels end at the same height
        picture.paste(cell, (x, 2 * GAP + heights[0] + depth - cell.height))
        x += cell.width + spare
    return picture


def _draw_panel(panel: Panel, frame: Box, size: tuple[int, int]) -> Image.Image:
    """The panel below its title, its colour bar to the right."""
    values, (width, height) = panel.values, size
    low, high = panel.ends or (0.0, 1.0)
    if values.ndim == 2:
        values = colored((values.astype(float) - low) / max(high - low, 1e-9), panel.colors)
    smaller = max(values.shape[:2]) > SIDE
    tile = Image.fromarray(values).resize(
        size, Image.Resampling.LANCZOS if smaller else Image.Resampling.NEAREST
    )
    if panel.box is not None:
        left, top, right, bottom = frame
        x, y = width / (right - left), height / (bottom - top)
        x0, y0, x1, y1 = panel.box
        first = (x0 - left) * x, (y0 - top) * y
        last = max((x1 - left) * x - 1, first[0]), max((y1 - top) * y - 1, first[1])
        ImageDraw.Draw(tile).rectangle((first, last), outline="crimson", width=3)
    text = _draw_text(panel.title, 14)
    ends = [_draw_text(f"{end:.3g}", 11) for end in (high, low) if panel.ends is not None]
    beside = GAP // 2 + BAR + 4 + max(end.width for end in ends) if ends else 0
    start = text.height + GAP // 2  # of the tile
    margin = max((text.width - width) // 2, 0)  # the title is centred above the tile
    cell_size = margin + width + max(beside, margin), start + height
    cell = Image.new("RGB", cell_size, "white")
    cell.paste(text, (margin + (width - text.width) // 2, 0))
    cell.paste(tile, (margin, start))
    if ends:
        x = margin + width + GAP // 2
        bar = Image.fromarray(color_table(panel.colors)[::-1, None]).resize((BAR, height))
        cell.paste(bar, (x, start))
        for end, y in zip(ends, (0, height - ends[1].height), strict=True):
            cell.paste(end, (x + BAR + 4, start + y))
    return cell


def _draw_text(text: str, size: int, *, bold: bool = False, color: str = TEXT) -> Image.Image:
    """Lines of text on white, centred."""
    font = text_font(size, text, bold=bold)
    ink = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    _, _, width, height = ink.multiline_textbbox((0, 0), text, font)
    picture = Image.new("RGB", (max(1, int(width) + 1), max(1, int(height) + 1)), "white")
    ImageDraw.Draw(picture).multiline_text((0, 0), text, color, font, align="center")
    return picture
