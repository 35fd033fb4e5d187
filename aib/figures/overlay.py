"""A map at image size and in colours, over its image."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from aib.errors import AibError

Array = npt.NDArray[Any]
Picture = npt.NDArray[np.uint8]
COLORS = MAP_COLORS, SIGMA_COLORS = "viridis", "magma"
FLAT = 1e-6  # a map whose max - min is below this highlights nothing
DARK = 24  # of the ground where nothing is kept


def overlay(
    image: Any, map: Any, colormap: str = "viridis", alpha: float = 0.5, *, scale: bool = True
) -> Picture:
    """The map's colours over the image: uint8 RGB [H,W,3].

    The image is uint8 [H,W,3] (an array or a PIL image), or a tensor [3,H,W] (uint8, or floats in
    [0,1]); the map [h,w] may have any size and is bilinearly resized. `scale` maps its minimum and
    maximum to the ends of the colormap; without it the ends are 0 and 1, so that maps can be
    compared. A flat map is never scaled. `alpha` is the opacity of the map.
    """
    picture = _pixels(image).astype(np.float64)
    values = torch.as_tensor(map).detach().cpu().float()
    if values.ndim != 2 or not bool(values.isfinite().all()):
        raise AibError(f"a map must be [h,w] and finite, not {list(values.shape)}")
    values = enlarge(values[None], picture.shape[:2])[0]
    least, most = values.aminmax()
    if scale and float(most - least) >= FLAT:
        values = (values - least) / (most - least)
    colors = colored(values.clamp(0, 1).numpy(), colormap)
    return np.rint((1 - alpha) * picture + alpha * colors).clip(0, 255).astype(np.uint8)


def kept(image: Any, mask: Any) -> Picture:
    """What a mask [h,w] of shares keeps of an image, on a dark ground: uint8 RGB [H,W,3]."""
    picture = _pixels(image).astype(np.float64)
    shares = enlarge(torch.as_tensor(mask).detach().cpu().float()[None], picture.shape[:2])[0]
    opened = shares.clamp(0, 1).numpy()[:, :, None]
    return np.rint(opened * picture + (1 - opened) * DARK).astype(np.uint8)


def _pixels(image: Any) -> Picture:
    """Any kind of image as uint8 [H,W,3]."""
    if isinstance(image, Tensor):
        if image.is_floating_point():
            if not 0 <= float(image.min()) <= float(image.max()) <= 1:
                raise AibError("a floating-point image must lie in [0,1]: undo its normalisation")
            image = (image * 255).round().to(torch.uint8)
        image = image.detach().cpu().movedim(0, -1).numpy()
    array = np.asarray(image)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
        expected = "uint8 [H,W,3], or a tensor [3,H,W]"
        raise AibError(f"an image must be {expected}, not {array.dtype} {list(array.shape)}")
    return array


def colored(values: Array, name: str) -> Picture:
    """Values from 0 to 1, of any shape, in the colours of a colormap: uint8 [...,3]."""
    return color_table(name)[(256 * values).clip(0, 255).astype(int)]


@cache
def color_table(name: str) -> Picture:
    """The 256 colours of a matplotlib colormap, uint8 [256,3]."""
    if name in COLORS:  # from a file with a row for each: matplotlib takes half a second to load
        with Image.open(Path(__file__).with_name("colors.png")) as image:
            return np.asarray(image)[COLORS.index(name)]
    from matplotlib import colormaps

    colors = colormaps[name](np.linspace(0, 1, 256))[:, :3]
    return np.rint(255 * colors).astype(np.uint8)


def enlarge(maps: Tensor, size: Sequence[int]) -> Tensor:
    """Maps [B,h,w] to [B,H,W]: floats bilinear, as float32; levels and masks keep their type, and
    each pixel takes the value of the cell that its centre lies in.

    Bilinear in float64, rounded to float32: interpolation between equal values then gives that
    value to the bit, and the ties of a quantised map stay ties.
    """
    size = (size[0], size[1])
    if not maps.is_floating_point():
        rows, columns = (
            (2 * torch.arange(pixels) + 1) * cells // (2 * pixels)
            for pixels, cells in zip(size, maps.shape[1:], strict=True)
        )
        return maps[:, rows][:, :, columns]
    if tuple(maps.shape[1:]) == size:
        return maps.float()
    wide = F.interpolate(maps[:, None].double(), size=size, mode="bilinear", align_corners=False)
    return wide[:, 0].float()
