"""Masks of objects: uint8, 0 for background, 1 for the object, 255 for pixels that never count."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aib.errors import AibError

IGNORED = 255  # the border of a trimap, or a mask that is unknown


def object_and_counted(objects: Tensor) -> tuple[Tensor, Tensor]:
    """The pixels of the object, and those that count at all: bool, shaped like the masks."""
    if objects.dtype == torch.bool:
        return objects, torch.ones_like(objects)
    counted = objects != IGNORED
    return (objects != 0) & counted, counted


def to_uint8(objects: Tensor) -> Tensor:
    """A user's masks, bool or uint8, as uint8; an error for other values, such as 0 and 255."""
    if objects.dtype == torch.bool:
        return objects.to(torch.uint8)
    other = objects[(objects != 0) & (objects != 1)]
    if other.numel() and not ((other == IGNORED).all() and (objects == 1).any()):
        raise AibError(
            "masks must be bool, or uint8 with 0 for background, 1 for the object and 255 for "
            "pixels to ignore"
        )
    return objects


def boxes_to_objects(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes [B,4] to bool masks [B,H,W].

    A box is (left, top, right, bottom) in pixels from the image's corner, and covers the pixels
    whose centres lie in it.
    """
    left, top, right, bottom = boxes.float()[:, None].unbind(dim=-1)  # [B,1] each
    y = torch.arange(size[0], device=boxes.device) + 0.5
    x = torch.arange(size[1], device=boxes.device) + 0.5
    rows = (y >= top) & (y < bottom)  # [B,H]
    columns = (x >= left) & (x < right)  # [B,W]
    return rows[:, :, None] & columns[:, None, :]


def from_grey(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A grey mask: the object where it is brighter than 127."""
    return (values > 127).astype(np.uint8)


def from_trimap(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A trimap: 1 is the object, 2 the background, 3 the border between them."""
    objects = np.where(values == 1, 1, IGNORED)
    return np.where(values == 2, 0, objects).astype(np.uint8)


def from_user(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A user's mask: 0 is background and any other value the object.

    A mask of 0, 1 and 255 (with a 1) is a trimap, where 255 is ignored.
    """
    if (values == 1).any() and np.isin(values, (0, 1, IGNORED)).all():
        return values
    return (values > 0).astype(np.uint8)
