"""Pictures of maps: one explanation with its colour bars, and grids of small images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from torch import Tensor

from aib.figures.overlay import overlay
from aib.figures.scale import FLAT, stretch_note
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


def draw_explanation(
    image: Array,
    map: Tensor,
    *,
    title: str,
    subtitle: str = "",
    method: str = "attention",
    levels: Tensor | None = None,
    num_levels: int = 0,
    sigma: Tensor | None = None,
    ends: tuple[float, float] | None = None,
    seen: Array | None = None,
    bits: Tensor | None = None,
    class_maps: Sequence[tuple[str, Tensor]] = (),
    part: Box | None = None,
    box: Box | None = None,
    box_note: str = "",
) -> Any:
    """Draw image, overlay and, if given, seen image, bits, levels, uncertainty and class maps.

    image and seen uint8 [H,W,3]; map, bits, levels and sigma [h,w], of any size. `ends` are those
    of the map's colours; by default its own range. `class_maps` have titles and share one colour
    scale. `box` is drawn over image and map; `part` is where the image lies in the same
    coordinates. Returns a matplotlib figure.
    """
    from matplotlib.figure import Figure

    panels = 2 + sum(one is not None for one in (seen, bits, levels, sigma)) + len(class_maps)
    aspect = min(max(image.shape[0] / image.shape[1], 0.5), 2.0)
    figure = Figure(figsize=(3.0 * panels, 2.6 * aspect + 0.9), layout="constrained")
    axes = figure.subplots(1, panels)
    figure.suptitle(title, fontsize=13, fontweight="bold")
    if subtitle:
        figure.supxlabel(subtitle, fontsize=8, color="0.4")
    for axis in axes:
        axis.set_axis_off()
    left, top, right, bottom = part or (0, 0, image.shape[1], image.shape[0])
    frame = (left, right, bottom, top)
    axes[0].imshow(image, extent=frame, interpolation="nearest")
    axes[0].set_title("image" + (f"\n({box_note})" if box_note else ""), fontsize=10)
    rest = list(axes[1:])
    if seen is not None:
        axis = rest.pop(0)
        axis.imshow(seen, extent=frame, interpolation="nearest")
        axis.set_title("seen by the classifier", fontsize=10)
    if box is not None:
        _draw_box(axes[0], box)
        _draw_box(rest[0], box)
    low, high = ends or limits(map)
    note = stretch_note(low, high) if method == "attention" and ends is None else ""
    _panel(
        figure,
        rest.pop(0),
        overlay(magnified(image), map.cpu(), MAP_COLORS, alpha=0.55, scale=ends is None),
        frame,
        f"{method} map" + (f"\n({note})" if note else ""),
        (low, high),
        MAP_COLORS,
    )
    if bits is not None:
        title = f"{float(bits.sum()):,.0f} bits pass"
        _panel(figure, rest.pop(0), _values(bits), frame, title, limits(bits), BITS_COLORS)
    if levels is not None:
        _panel(
            figure,
            rest.pop(0),
            levels.cpu().numpy(),
            frame,
            f"levels, {int(levels.unique().numel())} of {num_levels} used",
            (0, max(num_levels - 1, 1)),
            MAP_COLORS,
        )
    if sigma is not None:
        title = "uncertainty σ"
        _panel(figure, rest.pop(0), _values(sigma), frame, title, limits(sigma), SIGMA_COLORS)
    for title, shown in class_maps:
        low, high = limits(torch.stack([one for _, one in class_maps]))
        scaled = (shown.cpu() - low) / max(high - low, FLAT)
        blend = overlay(magnified(image), scaled, MAP_COLORS, alpha=0.55, scale=False)
        _panel(figure, rest.pop(0), blend, frame, title, (low, high), MAP_COLORS)
    return figure


def _draw_box(axis: Any, box: Box) -> None:
    from matplotlib.patches import Rectangle

    left, top, right, bottom = box
    size = (right - left, bottom - top)
    axis.add_patch(Rectangle((left, top), *size, fill=False, edgecolor="crimson", linewidth=2))


def limits(map: Tensor) -> tuple[float, float]:
    """The least and the greatest value."""
    low, high = map.float().aminmax()
    return float(low), float(high)


def _values(map: Tensor) -> Array:
    values: Array = map.cpu().float().numpy()
    return values


def _panel(
    figure: Any,
    axis: Any,
    values: Array,
    frame: tuple[int, int, int, int],
    title: str,
    ends: tuple[float, float],
    colors: str,
) -> None:
    """Draw one map with its colour bar; an RGB picture keeps its colours."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    norm = Normalize(ends[0], max(ends[1], ends[0] + 1e-9))
    axis.imshow(values, extent=frame, cmap=colors, norm=norm, interpolation="nearest")
    axis.set_title(title, fontsize=10)
    scale = ScalarMappable(norm, colors)
    bar = figure.colorbar(scale, ax=axis, ticks=ends, fraction=0.046, pad=0.03)
    bar.ax.set_yticklabels([f"{end:.3g}" for end in ends], fontsize=8)
    bar.outline.set_visible(False)


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
