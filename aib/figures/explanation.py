"""The picture of an explanation: image, map over it, levels, uncertainty, side by side."""

from typing import TYPE_CHECKING

from PIL import Image

from aib.errors import AibError
from aib.figures.fonts import in_order
from aib.figures.overlay import BITS_COLORS, SIGMA_COLORS, overlay
from aib.figures.picture import image_tile, limits, magnified
from aib.figures.row import Panel, draw_row
from aib.figures.scale import FLAT

if TYPE_CHECKING:
    from aib.models.explanation import Explanation

OPACITY = 0.55  # of a map over its image


def draw(found: "Explanation", image: int = 0, subtitle: str = "") -> Image.Image:
    """Draw one image's explanation as a row of panels below its title."""
    one = found[image].cpu()
    title = f"{in_order(one.names()[0])}  {100 * float(one.probability):.1f}%, {one.certainty()}"
    row = panels(one)
    height, width = one.images[0].shape[:2]
    frame = one.regions[0].part if one.regions else (0, 0, width, height)
    return draw_row(row, frame, title=title, subtitle=subtitle)


def panels(found: "Explanation", image: int = 0, *, opacity: float = OPACITY) -> list[Panel]:
    """The parts of one image's picture."""
    one = found[image].cpu()
    shown, seen = one.shown_map, one.seen_pixels
    if shown is None or not one.images:
        raise AibError("a picture needs the image and a map: use aib.explain(model, source)")
    box = one.regions[0].box if one.regions else None
    row = [Panel("image" + (f"\n(box: {one.cut})" if box else ""), one.images[0], box=box)]
    if seen is not None:
        row.append(Panel("seen by the classifier", image_tile(seen[0])))
    low, high = limits(shown) if one.mask is None else (0.0, 1.0)  # a mask is a share
    name = "attention" if one.method == "own" else str(one.method).replace("_", " ")
    scaled = (shown[0] - low) / max(high - low, FLAT)
    over = overlay(magnified(one.images[0]), scaled, alpha=opacity, scale=False)
    row.append(Panel(f"{name} map", over, (low, high), box=box))
    if one.bits is not None:
        name = f"bits per pixel ({float(one.bits.sum()):,.0f} pass)"
        row.append(Panel(name, one.bits[0].numpy(), limits(one.bits), BITS_COLORS))
    if one.level_indices is not None and one.anchors is not None:
        used, count = one.level_indices.unique().numel(), len(one.anchors)
        values = one.level_indices[0].numpy()
        row.append(Panel(f"levels, {used} of {count} used", values, (0, max(count - 1, 1))))
    if one.sigma is not None:
        row.append(Panel("uncertainty σ", one.sigma[0].numpy(), limits(one.sigma), SIGMA_COLORS))
    return row
