"""Pictures of maps: how they are saved, their tiles, and grids of small images."""

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from aib.figures.fonts import other_font, text_font
from aib.figures.overlay import MAP_COLORS, Array, overlay
from aib.system.files import as_text, write_whole

GAP = 2  # pixels between two tiles
LABEL = 8  # points


def save_figure(figure: Any, path: Path) -> None:
    """Write a matplotlib figure as PNG, atomically."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if font := other_font(text.get_text()):
            text.get_fontproperties().set_file(font)
    save = partial(figure.savefig, format="png", dpi=110, bbox_inches="tight")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # drawn as a box
        write_whole(path, save)


def save_image(image: Image.Image, path: Path) -> None:
    """Write an image as PNG, atomically."""
    write_whole(path, lambda partial: image.save(partial, format="PNG"))


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


def _literal(name: str) -> str:
    """A name that matplotlib draws as it is; two $ signs would begin and end a formula."""
    return as_text(name).replace("$", r"\$")


def draw_mosaic(
    rows: Sequence[Sequence[Array]],
    row_names: Sequence[str],
    column_names: Sequence[str],
    title: str = "",
    cell: float | None = None,
) -> Any:
    """Draw tiles of one size as a grid with names of rows and columns.

    `cell` is in inches; by default photographs get more than images of a few pixels, and any tile
    as much as the longest name above it.
    """
    from matplotlib.figure import Figure

    height, width = rows[0][0].shape[:2]
    columns, lines = (list(map(_literal, names)) for names in (column_names, row_names))
    words = [line for name in columns for line in name.split("\n")]
    longest = max(text_font(LABEL, line).getlength(line) for line in words) / 72
    cell = cell or max(0.72 if width <= 64 else 1.0, longest + 0.05)
    down, right = height + GAP, width + GAP
    sheet = np.full((len(rows) * down - GAP, len(rows[0]) * right - GAP, 3), 255, np.uint8)
    for i, row in enumerate(rows):
        for j, tile in enumerate(row):
            top, left = i * down, j * right
            sheet[top : top + height, left : left + width] = tile
    figure = Figure(figsize=(cell * len(rows[0]), cell * len(rows)))
    axis = figure.add_axes((0, 0, 1, 1))  # names lie outside; `save_figure` makes room for them
    axis.imshow(sheet, interpolation="nearest")
    axis.set_xticks([j * right + width / 2 for j in range(len(rows[0]))], columns)
    axis.set_yticks([i * down + height / 2 for i in range(len(rows))], lines)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelsize=LABEL)
    axis.spines[:].set_visible(False)
    if title:
        axis.set_title(_literal(title), fontsize=10, pad=10)
    return figure
