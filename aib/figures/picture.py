"""Pictures of maps: one explanation with its colour bars, and grids of small images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from torch import Tensor

from aib.figures.overlay import overlay
from aib.files import write_whole

Array = npt.NDArray[Any]
Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels; the last two exclusive
MAP_COLORS, SIGMA_COLORS, BITS_COLORS = "viridis", "magma", "cividis"
MARK = {"Software": "aib"}  # a text chunk of every PNG that we write


def save_figure(figure: Any, path: Path, dpi: int = 110) -> None:
    """Write a matplotlib figure as PNG, atomically."""
    write_whole(
        path,
        lambda partial: figure.savefig(
            partial, format="png", dpi=dpi, bbox_inches="tight", metadata=MARK
        ),
    )


def save_mask(mask: Array, path: Path) -> None:
    """Write a mask, bool [H,W], as PNG with the values 0 and 255, atomically."""
    note = PngInfo()
    for key, value in MARK.items():
        note.add_text(key, value)
    image = Image.fromarray(mask.astype(np.uint8) * 255)
    write_whole(path, lambda partial: image.save(partial, format="PNG", pnginfo=note))


def is_figure(path: Path) -> bool:
    """Whether `save_figure` or `save_mask` wrote this file."""
    try:
        if path.suffix.lower() != ".png" or not path.is_file():  # opening a pipe would block
            return False
        with Image.open(path, formats=("PNG",)) as image:  # reads the header only
            return all(image.info.get(key) == value for key, value in MARK.items())
    except Exception:  # damaged files raise any kind of exception
        return False


class Panel(NamedTuple):
    """Values [h,w] in colours between `ends`, with a colour bar; or an RGB picture [H,W,3]."""

    title: str
    values: Array
    ends: tuple[float, float] | None = None  # None: no colour bar
    colors: str = MAP_COLORS
    box: Box | None = None  # drawn over it


def draw_row(panels: Sequence[Panel], frame: Box, *, title: str, subtitle: str = "") -> Any:
    """Draw panels side by side. `frame` is where they lie in the coordinates of their boxes."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    height, width = panels[0].values.shape[:2]
    aspect = min(max(height / width, 0.5), 2.0)
    figure = Figure(figsize=(3.0 * len(panels), 2.6 * aspect + 0.9), layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold")
    if subtitle:
        figure.supxlabel(subtitle, fontsize=8, color="0.4")
    left, top, right, bottom = frame
    for axis, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
        low, high = panel.ends or (0, 1)
        scale = ScalarMappable(Normalize(low, max(high, low + 1e-9)), panel.colors)
        axis.set_axis_off()
        axis.set_title(panel.title, fontsize=10)
        axis.imshow(
            panel.values,
            extent=(left, right, bottom, top),
            cmap=scale.cmap,
            norm=scale.norm,
            interpolation="nearest",
        )
        if panel.box is not None:
            x, y, *end = panel.box
            size = (end[0] - x, end[1] - y)
            axis.add_patch(Rectangle((x, y), *size, fill=False, edgecolor="crimson", linewidth=2))
        if panel.ends is not None:
            bar = figure.colorbar(scale, ax=axis, ticks=(low, high), fraction=0.046, pad=0.03)
            bar.ax.set_yticklabels([f"{end:.3g}" for end in (low, high)], fontsize=8)
            bar.outline.set_visible(False)
    return figure


def limits(map: Tensor) -> tuple[float, float]:
    """The least and the greatest value."""
    low, high = map.float().aminmax()
    return float(low), float(high)


def magnified(picture: Array, side: int = 256) -> Array:
    """A small picture [H,W,...] enlarged by an integer factor, so that its pixels stay sharp."""
    factor = max(1, side // max(picture.shape[:2]))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


def map_tile(map: Tensor, size: tuple[int, int], colors: str = MAP_COLORS) -> Array:
    """A map in colours, scaled to its own range: uint8 [H,W,3]."""
    blank = torch.zeros(3, *size, dtype=torch.uint8)
    return overlay(blank, map.cpu(), colormap=colors, alpha=1.0)


def image_tile(pixels: Tensor) -> Array:
    """uint8 [3,H,W] to [H,W,3]."""
    return pixels.cpu().permute(1, 2, 0).numpy()


def draw_mosaic(
    rows: Sequence[Sequence[Array]],
    row_names: Sequence[str],
    column_names: Sequence[str],
    title: str = "",
    gap: int = 2,
    cell: float = 0.72,
) -> Any:
    """Draw tiles of one size as a grid with names of rows and columns; `cell` is in inches."""
    from matplotlib.figure import Figure

    height, width = rows[0][0].shape[:2]
    sheet = np.full(
        (len(rows) * (height + gap) - gap, len(rows[0]) * (width + gap) - gap, 3), 255, np.uint8
    )
    for i, row in enumerate(rows):
        for j, tile in enumerate(row):
            top, left = i * (height + gap), j * (width + gap)
            sheet[top : top + height, left : left + width] = tile
    figure = Figure(figsize=(cell * len(rows[0]) + 1.6, cell * len(rows) + 0.8))
    axis = figure.subplots()
    axis.imshow(sheet, interpolation="nearest")
    axis.set_xticks([j * (width + gap) + width / 2 for j in range(len(rows[0]))], column_names)
    axis.set_yticks([i * (height + gap) + height / 2 for i in range(len(rows))], row_names)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelsize=8)
    axis.spines[:].set_visible(False)
    if title:
        axis.set_title(title, fontsize=10, pad=10)
    return figure
