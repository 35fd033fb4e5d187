"""A map in colours, over its image."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from aib.errors import AibError
from aib.figures.scale import FLAT, enlarge

Array = npt.NDArray[Any]
Picture = npt.NDArray[np.uint8]
COLORS = MAP_COLORS, SIGMA_COLORS, BITS_COLORS = "viridis", "magma", "cividis"


def overlay(
    image: Any, map: Any, colormap: str = "viridis", alpha: float = 0.5, *, scale: bool = True
) -> Picture:
    """The map's colours over the image: uint8 RGB [H,W,3].

    The image is uint8 [H,W,3] (an array or a PIL image), or a tensor [3,H,W] (uint8, or floats in
    [0,1]); the map [h,w] may have any size and is bilinearly resized. `scale` maps its minimum and
    maximum to the ends of the colormap; without it the ends are 0 and 1, so that maps can be
    compared. A flat map is never scaled. `alpha` is the opacity of the map.
    """
    if not 0 <= alpha <= 1:
        raise AibError(f"alpha must lie between 0 and 1, not {alpha}")
    picture = _picture(image)
    levels = _levels(map, picture.shape[:2], scale)
    mixed = (1 - alpha) * picture + alpha * colored(levels, colormap)
    return np.rint(mixed).clip(0, 255).astype(np.uint8)


def _picture(image: Any) -> npt.NDArray[np.float64]:
    shape = list(np.shape(image))
    if isinstance(image, Tensor):
        if image.is_floating_point():
            if not 0 <= float(image.min()) <= float(image.max()) <= 1:
                raise AibError("a floating-point image must lie in [0,1]: undo its normalisation")
            image = (image * 255).round().to(torch.uint8)
        image = image.detach().cpu().movedim(0, -1).numpy()
    array = np.asarray(image)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
        wanted = "uint8 [H,W,3], or a tensor [3,H,W]"
        raise AibError(f"an image must be {wanted}, not {array.dtype} {shape}")
    return array.astype(np.float64)


def _levels(map: Any, size: tuple[int, ...], scale: bool) -> npt.NDArray[np.float32]:
    values = torch.as_tensor(map).detach().cpu().float()
    if values.ndim != 2 or values.numel() == 0:
        raise AibError(f"a map must be [h,w] and not empty, not {list(values.shape)}")
    if not bool(values.isfinite().all()):
        raise AibError("the map holds NaN or infinite values")
    values = enlarge(values[None], size)[0]
    least, most = values.aminmax()
    if scale and float(most - least) >= FLAT:
        values = (values - least) / (most - least)
    return values.clamp(0, 1).numpy()


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

    if name not in colormaps:
        raise AibError(f"matplotlib has no colormap named {name!r}; 'viridis' and 'magma' are two")
    colors = colormaps[name](np.linspace(0, 1, 256))[:, :3]
    return np.rint(255 * colors).astype(np.uint8)
