"""Maps at image size, and the contrast below which a map is flat."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

FLAT = 1e-6  # a map whose max - min is below this highlights nothing


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
