"""Where the images of an ImageSet are if not in memory: files, or items of a user's data set."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from aib.data.decode import open_mask, open_rgb, to_image, upright_size
from aib.data.objects import from_grey
from aib.errors import AibError


@dataclass(frozen=True)
class ImageFiles:
    """Image files, decoded on access and cropped if there are crop boxes; masks likewise."""

    paths: tuple[Path, ...]
    crops: Tensor | None = None  # [N,4] left, top, right, bottom in pixels of the upright image
    objects: tuple[Path | None, ...] = ()  # one for each image, None where it is unknown; or empty
    object_values: Callable[[NDArray[np.uint8]], NDArray[np.uint8]] = from_grey  # of the files

    def __len__(self) -> int:
        return len(self.paths)

    def decode(self, index: int, reduce: int = 0) -> Image.Image:
        """One image; a large JPEG may be `reduce`d (see open_rgb) unless it has a crop box."""
        reduce = 0 if self.crops is not None else reduce
        return self._cropped(open_rgb(self.paths[index], reduce=reduce), index)

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


@dataclass(frozen=True)
class ImageItems:
    """Images of a user's data set, each read on access."""

    dataset: Any  # map-style: dataset[i] gives an item
    image: int | str  # where an item has its image
    indices: Tensor  # [N], of the items
    crops: None = None

    def __len__(self) -> int:
        return len(self.indices)

    def decode(self, index: int) -> Image.Image:
        position = int(self.indices[index])
        try:
            return to_image(self.dataset[position][self.image])
        except Exception as error:  # a user's code can raise any
            kind = "" if isinstance(error, AibError) else f"{type(error).__name__}: "
            raise AibError(f"item {position} of the data cannot be read: {kind}{error}") from error

    def subset(self, indices: Tensor) -> "ImageItems":
        return replace(self, indices=self.indices[indices])
