"""ImageSet: labelled images with their preprocessing, in memory or on disk."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from aib.data.decode import (
    centre_square,
    open_mask,
    open_rgb,
    resized,
    to_image,
    to_tensor,
    upright_size,
)
from aib.data.masks import IGNORED, boxes_to_masks, from_grey, to_uint8
from aib.data.specs import Spec
from aib.errors import AibError
from aib.memory import machine_memory
from aib.preprocessing import Preprocessing

# Image files are decoded once and stay in memory up to this image size.
SMALL_SIDE = 64
CHUNK = 1 << 22  # pixels per step of resizing


@dataclass(frozen=True)
class ImageFiles:
    """Image files, decoded on access and cropped if there are crop boxes; masks likewise."""

    paths: tuple[Path, ...]
    crops: Tensor | None = None  # [N,4] left, top, right, bottom in pixels of the upright image
    masks: tuple[Path | None, ...] = ()  # one for each image, None where it is unknown; or empty
    mask_values: Callable[[NDArray[np.uint8]], NDArray[np.uint8]] = from_grey  # of the files

    def __len__(self) -> int:
        return len(self.paths)

    def decode(self, index: int, reduce: int = 0) -> Image.Image:
        """One image; a large JPEG may be `reduce`d (see open_rgb) unless it has a crop box."""
        reduce = 0 if self.crops is not None else reduce
        return self._cropped(open_rgb(self.paths[index], reduce=reduce), index)

    def decode_mask(self, index: int) -> Image.Image | None:
        """The mask of the decoded image, mode L with 0, 1 and 255; None if it is unknown."""
        path = self.masks[index] if self.masks else None
        if path is None:
            return None
        mask = open_mask(path, self.mask_values)
        self._check_size(index, mask.size)
        return self._cropped(mask, index)

    def check_mask(self, index: int) -> None:
        """Raise an error for a mask of another size than its image."""
        mask = self.masks[index]
        if mask is not None:
            self._check_size(index, upright_size(mask))

    def _check_size(self, index: int, found: tuple[int, int]) -> None:
        width, height = upright_size(self.paths[index])
        if found != (width, height):
            raise AibError(
                f"the mask {self.masks[index]} is {found[0]} x {found[1]} pixels and its image "
                f"{self.paths[index]} is {width} x {height}: draw it at the image's size"
            )

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
            masks=tuple(self.masks[i] for i in chosen) if self.masks else (),
        )


@dataclass(frozen=True)
class ImageItems:
    """Images of a user's data set, each read on access: in the place of `ImageFiles`."""

    dataset: Any  # map-style: dataset[i] gives an item
    image: int | str  # where an item has its image
    indices: Tensor  # [N], of the items
    crops: None = None  # as ImageFiles has; there are none
    masks: tuple[()] = ()

    def __len__(self) -> int:
        return len(self.indices)

    def decode(self, index: int, reduce: int = 0) -> Image.Image:
        position = int(self.indices[index])
        try:
            return to_image(self.dataset[position][self.image])
        except Exception as error:  # a user's code can raise any
            kind = "" if isinstance(error, AibError) else f"{type(error).__name__}: "
            raise AibError(f"item {position} of the data cannot be read: {kind}{error}") from error

    def subset(self, indices: Tensor) -> "ImageItems":
        return replace(self, indices=self.indices[indices])


@dataclass(frozen=True, eq=False)
class ImageSet(Dataset):
    """N labelled images, either in memory (`images`) or on disk (`files`).

    As a torch Dataset its items are (uint8 [3,S,S], label), S = preprocessing.image_size.
    """

    name: str
    split: str
    labels: Tensor  # int64 [N]
    preprocessing: Preprocessing
    images: Tensor | None = None  # uint8 [N,3,S,S]
    files: ImageFiles | ImageItems | None = None
    masks: Tensor | None = None  # uint8 [N,S,S]: 0 background, 1 object, 255 ignored
    boxes: Tensor | None = None  # [N,4] left, top, right, bottom in pixels of `images` or the file
    mirror: bool = True  # a mirrored image keeps its class
    pad: int = 4  # pixels of reflect padding for training crops of images in memory
    skipped: tuple[str, ...] = ()  # an error message for each file that could not be read

    def __post_init__(self) -> None:
        if (self.images is None) == (self.files is None):
            raise AibError("an ImageSet needs either images or files")
        count = len(self.labels)
        _require("labels", self.labels, torch.int64, (count,))
        found = len(self.images if self.files is None else self.files)  # type: ignore[arg-type]
        if found != count:
            raise AibError(f"{self.name} has {found} images and {count} labels")
        if count == 0:
            raise AibError(f"{self.name} has no images in split '{self.split}'")
        side = self.preprocessing.image_size
        _require("images", self.images, torch.uint8, (count, 3, side, side))
        _require("masks", self.masks, torch.uint8, (count, side, side))
        _require("boxes", self.boxes, torch.float32, (count, 4))
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= self.num_classes:
            raise AibError(
                f"labels of {self.name} run from {low} to {high}, but it has {self.num_classes} "
                "classes"
            )

    @classmethod
    def of(
        cls,
        spec: Spec,
        split: str,
        labels: Tensor,
        *,
        class_names: tuple[str, ...] = (),
        **content: Any,
    ) -> "ImageSet":
        """A known data set: its spec with these images or files, and other class names if given."""
        return cls(
            name=spec.name,
            split=split,
            labels=labels,
            preprocessing=Preprocessing(
                image_size=spec.image_size,
                mean=spec.mean,
                std=spec.std,
                class_names=class_names or spec.classes,
            ),
            mirror=spec.mirror,
            pad=spec.pad,
            **content,
        )

    @classmethod
    def from_tensors(
        cls,
        images: Tensor,
        labels: Tensor,
        *,
        class_names: Sequence[str] = (),
        masks: Tensor | None = None,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (0.5, 0.5, 0.5),
        name: str = "custom",
        split: str = "train",
        mirror: bool = True,
    ) -> "ImageSet":
        """A data set from tensors: images uint8 [N,3,S,S], labels of any integer type [N].

        `masks` [N,S,S] are bool, or uint8: 0 background, 1 object, 255 ignored in every score.
        """
        side = images.shape[-1]
        _require("images", images, torch.uint8, (len(images), 3, side, side))
        if not class_names and len(labels):
            class_names = [str(i) for i in range(int(labels.max()) + 1)]
        return cls(
            name=name,
            split=split,
            labels=labels.to(torch.int64),
            preprocessing=Preprocessing(
                image_size=side,
                mean=tuple(mean),
                std=tuple(std),
                class_names=tuple(class_names),
            ),
            images=images,
            masks=None if masks is None else to_uint8(masks),
            mirror=mirror,
            pad=side // 8,
        )

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.preprocessing.class_names

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.pixels(index), int(self.labels[index])

    def pixels(self, index: int) -> Tensor:
        """One image, resized as for evaluation and not normalised, uint8 [3,S,S]."""
        if self.images is not None:
            return self.images[index]
        assert self.files is not None
        policy = self.preprocessing
        return to_tensor(resized(self.files.decode(index), policy.image_size, policy.resize))

    @property
    def has_outlines(self) -> bool:
        """Whether masks show the object's outline; some images may have none."""
        return self.masks is not None or (self.files is not None and bool(self.files.masks))

    @property
    def has_masks(self) -> bool:
        """Whether there are masks, or boxes to make them of."""
        return self.has_outlines or self.boxes is not None

    @property
    def has_only_boxes(self) -> bool:
        """Whether masks show the object's box, not its outline."""
        return self.boxes is not None and not self.has_outlines

    def mask(self, index: int) -> Tensor | None:
        """The mask (or filled box) of the object in `pixels(index)`, uint8 [S,S]; None if unknown.

        0 is background, 1 the object, 255 a pixel that counts in no score.
        """
        if self.masks is not None:
            return self.masks[index]
        size = self.preprocessing.image_size
        if isinstance(self.files, ImageFiles) and self.has_outlines:
            mask = self.files.decode_mask(index)
            if mask is None:
                return None
            return torch.from_numpy(np.array(resized(mask, size, self.preprocessing.resize)))
        box = self.box(index)
        return None if box is None else boxes_to_masks(box[None], (size, size))[0].to(torch.uint8)

    def known_mask(self, index: int) -> Tensor:
        """`mask(index)`, or all 255 where it is unknown."""
        mask, size = self.mask(index), self.preprocessing.image_size
        return torch.full((size, size), IGNORED, dtype=torch.uint8) if mask is None else mask

    def box(self, index: int) -> Tensor | None:
        """The object's box in `pixels(index)` and clipped to it, float32 [4]; None if unknown."""
        if self.boxes is None:
            return None
        box, size = self.boxes[index], self.preprocessing.image_size
        if isinstance(self.files, ImageFiles):
            width, height = upright_size(self.files.paths[index])
            left, top, right, bottom = 0.0, 0.0, float(width), float(height)
            if self.preprocessing.resize == "crop":
                left, top, right, bottom = centre_square(width, height)
            scale = torch.tensor([size / (right - left), size / (bottom - top)]).repeat(2)
            box = (box - torch.tensor([left, top]).repeat(2)) * scale
        return box.clamp(0, size)

    def subset(self, indices: Tensor, *, split: str | None = None) -> "ImageSet":
        """The images at these indices, in this order."""
        tensors = {n: getattr(self, n) for n in ("labels", "images", "masks", "boxes")}
        return replace(
            self,
            split=self.split if split is None else split,
            files=None if self.files is None else self.files.subset(indices),
            **{n: tensor[indices] for n, tensor in tensors.items() if tensor is not None},
        )

    def prepared_for(self, preprocessing: Preprocessing) -> "ImageSet":
        """The images resized and normalised for a model with this preprocessing.

        For data that a model was not trained on, of another size for instance. Class names stay.
        """
        target = replace(preprocessing, class_names=self.class_names)
        if self.images is not None:
            check_memory(len(self), target.image_size)
        old, new = self.preprocessing.image_size, target.image_size
        if old == new:
            return replace(self, preprocessing=target)
        boxes = self.boxes
        if self.images is not None and boxes is not None:
            boxes = boxes * new / old
        return replace(
            self,
            preprocessing=target,
            images=None if self.images is None else _resize_images(self.images, new),
            masks=None if self.masks is None else _resize_masks(self.masks, new),
            boxes=boxes,
            pad=max(self.pad * new // old, 1) if self.pad else 0,
        )

    def in_memory(self) -> "ImageSet":
        """Decode all files now, at the model's size: for sets that fit on the device."""
        if self.images is not None:
            return self
        check_memory(len(self), self.preprocessing.image_size)
        # Pillow releases the GIL. A user's data set may not be made for several threads.
        with ThreadPoolExecutor(1 if isinstance(self.files, ImageItems) else None) as pool:
            pixels = torch.stack(list(pool.map(self.pixels, range(len(self)))))  # [N,3,S,S]
            masks = list(pool.map(self.known_mask, range(len(self) if self.has_outlines else 0)))
        boxes = [self.box(i) for i in range(len(self) if self.boxes is not None else 0)]
        return replace(
            self,
            images=pixels,
            files=None,
            masks=torch.stack(masks) if masks else None,
            boxes=torch.stack(boxes) if boxes else None,  # type: ignore[arg-type]
        )


def check_memory(count: int, size: int) -> None:
    """Raise an error if images do not fit into memory: else the system kills the process."""
    needed = 3 * count * size * size
    available = machine_memory()
    if available is not None and needed > available:
        raise AibError(
            f"{count:,} images of {size} x {size} need {needed / 1e9:,.0f} GB, and this machine "
            f"has {available / 1e9:,.0f} GB: use fewer or smaller images"
        )


def _require(name: str, tensor: Tensor | None, dtype: torch.dtype, shape: Sequence[int]) -> None:
    """Raise an error for a tensor of another type or shape."""
    if tensor is not None and (tensor.dtype != dtype or list(tensor.shape) != list(shape)):
        wanted, found = (str(kind).removeprefix("torch.") for kind in (dtype, tensor.dtype))
        raise AibError(f"{name} must be {wanted} {list(shape)}, not {found} {list(tensor.shape)}")


def _resize_images(images: Tensor, size: int) -> Tensor:
    """Antialiased bilinear; in chunks, since floats need four times the memory."""
    resized_chunks = []
    for chunk in images.split(max(1, CHUNK // size**2)):
        floats = F.interpolate(chunk.float(), size=(size, size), mode="bilinear", antialias=True)
        resized_chunks.append(floats.round_().clamp_(0, 255).to(torch.uint8))
    return torch.cat(resized_chunks)


def _resize_masks(masks: Tensor, size: int) -> Tensor:
    return F.interpolate(masks[:, None], size=(size, size), mode="nearest-exact")[:, 0]
