"""Pictures of maps: tiles, panels side by side, grids of small images, and how they are saved.

Drawn with Pillow: matplotlib takes a second to import and to draw them.
"""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from zlib import Z_RLE

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from aib.figures.overlay import MAP_COLORS, Array, color_table, colored, overlay
from aib.system.files import write_whole

SIDE, GAP, BAR = 280, 16, 12  # pixels: longer side of a panel, between things, of a colour bar
TILE, SPACE = 110, 3  # pixels: least width of a grid's tile, between two tiles
TEXT, GREY = "black", "#666666"


def save_figure(figure: Any, path: Path) -> None:
    """Write a matplotlib figure as PNG, atomically."""
    write_whole(path, partial(figure.savefig, format="png", dpi=110, bbox_inches="tight"))


def save_image(image: Image.Image, path: Path) -> None:
    """Write an image as PNG, atomically."""
    # Run lengths only: for maps and photographs half the default's time, and as small.
    write_whole(path, lambda partial: image.save(partial, format="PNG", compress_type=Z_RLE))


def save_array(array: Array, path: Path) -> None:
    """Write an array as .npy, atomically."""

    def write(partial: Path) -> None:
        with partial.open("wb") as file:  # given a name, numpy would add .npy to it
            np.save(file, array)

    write_whole(path, write)


def distinct_names(names: Iterable[str]) -> list[str]:
    """The names in order; one whose files are taken gets a number: cat, cat-2."""
    taken: set[str] = set()
    distinct = []
    for name in names:
        candidate, number = name, 2
        while candidate in taken:
            candidate, number = f"{name}-{number}", number + 1
        taken.add(candidate)
        distinct.append(candidate)
    return distinct


def limits(map: Tensor) -> tuple[float, float]:
    """The least and the greatest value."""
    low, high = map.float().aminmax()
    return float(low), float(high)


def magnified(picture: Array, side: int = 256) -> Array:
    """A small picture [H,W,...] enlarged by an integer factor, so that its pixels stay sharp."""
    factor = max(1, side // max(picture.shape[:2]))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


def map_tile(map: Tensor) -> Array:
    """A map [H,W] in colours, scaled to its own range: uint8 [H,W,3]."""
    blank = torch.zeros(3, *map.shape, dtype=torch.uint8)
    return overlay(blank, map.cpu(), MAP_COLORS, alpha=1.0)


def image_tile(pixels: Tensor) -> Array:
    """uint8 [3,H,W] to [H,W,3]."""
    return pixels.cpu().permute(1, 2, 0).numpy()


class Panel(NamedTuple):
    """Values [h,w] in colours between `ends`, with a colour bar; or an RGB picture [H,W,3]."""

    title: str
    values: Array
    ends: tuple[float, float] | None = None  # None: no colour bar
    colors: str = MAP_COLORS


def draw_row(
    panels: Sequence[Panel], shape: Sequence[int], *, title: str, subtitle: str = ""
) -> Image.Image:
    """Draw panels side by side, each with the proportions of a picture of this shape [H,W,...]."""
    cells = [draw_panel(panel, shape) for panel in panels]
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


def draw_panel(panel: Panel, shape: Sequence[int]) -> Image.Image:
    """Draw a panel below its title, with its colour bar to the right."""
    scale = SIDE / max(shape[:2])
    height, width = (max(1, round(scale * side)) for side in shape[:2])
    values = panel.values
    low, high = panel.ends or (0.0, 1.0)
    if values.ndim == 2:
        values = colored((values.astype(float) - low) / max(high - low, 1e-9), panel.colors)
    tile = _resized(values, (width, height))
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


def draw_mosaic(
    rows: Sequence[Sequence[Array]],
    row_names: Sequence[str],
    column_names: Sequence[str],
    title: str = "",
) -> Image.Image:
    """Draw tiles of one size as a grid with names of rows and columns.

    A tile is as wide as the longest name above it.
    """
    heading = _draw_text(title, 14)
    beside, above = ([_draw_text(name, 12) for name in some] for some in (row_names, column_names))
    height, width = rows[0][0].shape[:2]
    side = max(TILE, *(text.width for text in above))
    side = max(side, -(-side // width) * width if width < side else 0)  # pixels stay squares
    down, right = round(side * height / width), side + SPACE
    left = max(text.width for text in beside) + 2 * SPACE
    top = heading.height + max(text.height for text in above) + 2 * SPACE
    sheet = Image.new("RGB", (left + right * len(above), top + (down + SPACE) * len(rows)), "white")
    sheet.paste(heading, ((sheet.width - heading.width) // 2, 0))
    for j, text in enumerate(above):
        x = left + j * right + (side - text.width) // 2
        sheet.paste(text, (x, top - SPACE - text.height))
    for i, (name, row) in enumerate(zip(beside, rows, strict=True)):
        y = top + i * (down + SPACE)
        sheet.paste(name, (left - SPACE - name.width, y + (down - name.height) // 2))
        for j, tile in enumerate(row):
            sheet.paste(_resized(tile, (side, down)), (left + j * right, y))
    return sheet


def _resized(picture: Array, size: tuple[int, int]) -> Image.Image:
    """Enlarged pixels stay sharp."""
    smaller = max(size) < max(picture.shape[:2])
    how = Image.Resampling.LANCZOS if smaller else Image.Resampling.NEAREST
    return Image.fromarray(picture).resize(size, how)


@lru_cache(64)  # titles come again with each picture
def _draw_text(text: str, size: int, *, bold: bool = False, color: str = TEXT) -> Image.Image:
    """Lines of text on white, centred."""
    font = text_font(size, bold)
    ink = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    _, _, width, height = ink.multiline_textbbox((0, 0), text, font)
    picture = Image.new("RGB", (max(1, int(width) + 1), max(1, int(height) + 1)), "white")
    ImageDraw.Draw(picture).multiline_text((0, 0), text, color, font, align="center")
    return picture


@cache
def text_font(size: int, bold: bool) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib. To import matplotlib takes half a second."""
    folder = Path(str(find_spec("matplotlib").origin)).parent  # type: ignore[union-attr]
    return ImageFont.truetype(folder / f"mpl-data/fonts/ttf/DejaVuSans{'-Bold' * bold}.ttf", size)
