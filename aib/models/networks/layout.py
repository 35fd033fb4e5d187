"""How a layer's features lie in memory: [B,c,h,w], [B,h,w,c], or tokens [B,n+h*w,c].

A network does not say it. Where exactly one reading fits the shape it is taken, else the caller
has to name it.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from aib.config.validation import Count, Layout, NonNegativeInt, check
from aib.errors import AibError

Shape = Sequence[int]

MAX_PREFIX_TOKENS = 8  # that are guessed: a class token, a distillation token, a few registers
ARGUMENTS = (
    'layout= ("nchw", "nhwc" or "tokens"), prefix_tokens= and grid=(h, w), in commands --layout, '
    "--prefix-tokens and --token-grid"
)


class ToGrid(nn.Module):
    """Features in any layout to [B,c,h,w]; `prefix_tokens` before the grid's are left out."""

    def __init__(self, layout: Layout, prefix_tokens: int | None = None, grid: Shape | None = None):
        super().__init__()
        self.layout, self.prefix_tokens, self.grid = layout, prefix_tokens, grid

    def forward(self, f: Tensor) -> Tensor:
        if self.layout == "nchw":
            return f
        if self.layout == "nhwc":
            return f.permute(0, 3, 1, 2)
        assert self.grid is not None and self.prefix_tokens is not None
        h, w = self.grid
        if f.shape[1] != self.prefix_tokens + h * w:
            raise AibError(
                f"a grid of {h} x {w} needs {self.prefix_tokens + h * w} tokens, and images of "
                f"this size have {f.shape[1]}: give the image size that the network was attached at"
            )
        return f[:, self.prefix_tokens :].unflatten(1, (h, w)).permute(0, 3, 1, 2)

    def arguments(self) -> dict[str, Any]:
        """The arguments of `attach` that give this reading, as plain JSON types."""
        grid = None if self.grid is None else list(self.grid)
        return {"layout": self.layout, "prefix_tokens": self.prefix_tokens, "grid": grid}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.arguments().items())


def read_layout(
    shape: Shape,
    grown: Shape | None,
    image_size: int,
    *,
    layout: Layout | None = None,
    prefix_tokens: int | None = None,
    grid: Shape | None = None,
) -> ToGrid:
    """The one reading of features of this shape that fits what is given; otherwise an error.

    `grown` is their shape for images of twice the side, None where the network does not take them.
    """
    grid = tuple(grid) if isinstance(grid, list) else grid  # a list in JSON
    check("layout", layout, Layout | None)
    check("prefix_tokens", prefix_tokens, NonNegativeInt | None)
    check("grid", grid, tuple[Count, Count] | None)
    for_tokens = prefix_tokens is not None or grid is not None
    if for_tokens and (layout or "tokens") != "tokens":
        raise AibError(f'prefix_tokens and grid are for layout="tokens", not for {layout!r}')
    if len(shape) == 3 and layout in (None, "tokens"):
        found = _token_readings(shape, grown, image_size, prefix_tokens, grid)
    elif len(shape) == 4 and layout in (None, "nchw", "nhwc") and not for_tokens:
        found = [ToGrid(layout)] if layout else image_readings(shape, grown)
    else:
        found = []
    if len(found) != 1:
        fit = "fit no grid of positions" if not found else "can be read in several ways"
        raise AibError(
            f"features {list(shape)} of images of {image_size} x {image_size} {fit} "
            f"with the arguments given: say which with {ARGUMENTS}"
        )
    return found[0]


def image_readings(shape: Shape, grown: Shape | None) -> list[ToGrid]:
    """The readings of four axes that fit.

    Height and width grow with the image, channels do not. Where a network takes one image size
    only, or pools to one size, a square image has a square grid.
    """
    _, a, b, c = shape
    if grown is not None and len(grown) == 4 and list(grown[1:]) != [a, b, c]:
        grew = [new != old for new, old in zip(grown[1:], (a, b, c), strict=True)]
        fits = {"nchw": grew == [False, True, True], "nhwc": grew == [True, True, False]}
    else:
        fits = {"nchw": b == c, "nhwc": a == b}
    layouts: tuple[Layout, Layout] = ("nchw", "nhwc")
    return [ToGrid(layout) for layout in layouts if fits[layout]]


def _token_readings(
    shape: Shape, grown: Shape | None, image_size: int, prefix: int | None, grid: Shape | None
) -> list[ToGrid]:
    """All readings of [B,N,c] with N = prefix + h * w; a grid that is not given is square."""
    tokens = shape[1]
    if grid is not None:
        rest = tokens - grid[0] * grid[1]
        return [ToGrid("tokens", rest, grid)] if rest >= 0 and prefix in (None, rest) else []
    if prefix is None and grown is not None and len(grown) == 3 and list(grown) != list(shape):
        # Twice the side is four times the grid: N' - n = 4 (N - n).
        prefix, remainder = divmod(4 * tokens - grown[1], 3)
        if remainder or prefix < 0 or grown[2] != shape[2]:
            return []
    guessed = range(MAX_PREFIX_TOKENS + 1) if prefix is None else [prefix]
    sides = [(n, math.isqrt(max(tokens - n, 0))) for n in guessed]
    return [
        ToGrid("tokens", n, (side, side))
        for n, side in sides
        if side * side == tokens - n > 1 and (prefix is not None or image_size % side == 0)
    ]
