"""Image files with their masks, decoded on access."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from aib.data.decode import open_mask, open_rgb, upright_size
from aib.data.objects import from_grey
from aib.errors import AibError


@dataclass(frozen=True)
class ImageFiles:
    """Image files, decoded on access and cropped if there are crop boxes; masks likewise."""

    paths: tuple[Any, ...]  # a Path each, or a PIL image of a user's data set
    crops: Tensor | None = None  # [N,4] left, top, right, bottom in pixels of the upright image
    objects: tuple[Path | None, ...] = ()  # one for each image, None where it is unknown; or empty
    object_values: Callable[[NDArray[np.uint8]], NDArray[np.uint8]] = from_grey  # of the files

    def __len__(self) -> int:
        return len(self.paths)

    def decode(self, index: int, reduce: int = 0) -> Image.Image:
        """One image; a large JPEG may be `reduce`d (see open_rgb) unless it has a crop box."""
        source = self.paths[index]
        if isinstance(source, Image.Image):
            return source
        return self._cropped(
            open_rgb(source, reduce=0 if self.crops is not None else reduce), index
        )

    def decode_mask(self, index: int) -> Image.Image | None:
        """The mask of the decoded image, mode L with 0, 1 and 255; None if it is unknown."""
        path = self.objects[index] if self.objects else None
        if path is None:
            return None
        mask, size = open_mask(path, self.object_values), upright_size(self.paths[index])
        if mask.size != size:
            raise AibError(f"the mask {path} is {mask.size} pixels, and its image {size}")
        return self._cropped(mask, index)

    def _cropped(self, image: Image.Image, index: int) -> Image.Image:
        if self.crops is None:
            return image
        left, top, right, bottom = self.crops[index].round().int().tolist()
        # Some published boxes reach a pixel beyond the image.
        box = (max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height))
        if box[0] >= box[2] or box[1] >= box[3]:
            raise AibError(f"the box {box} of {self.paths[index]} lies outside of its image")
        return image.crop(box)

    def subset(self, indices: Tensor) -> "ImageFiles":
        chosen = indices.tolist()
        return replace(
            self,
            paths=tuple(self.paths[i] for i in chosen),
            crops=None if self.crops is None else self.crops[indices],
            objects=tuple(self.objects[i] for i in chosen) if self.objects else (),
        )
