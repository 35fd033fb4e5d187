"""ImageSet: labelled images with their preprocessing, in memory or on disk."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from aib.data.decode import centre_square, open_rgb, resized, to_image, to_tensor
from aib.data.specs import Spec
from aib.errors import AibError
from aib.memory import machine_memory
from aib.preprocessing import Preprocessing

# Image files are decoded once and stay in memory up to this image size.
SMALL_SIDE = 64
CHUNK = 1 << 22  # pixels per step of resizing


@dataclass(frozen=True)
class ImageFiles:
    """Image files, decoded on access and cropped if there are crop boxes."""

    paths: tuple[Path, ...]
    crops: Tensor | None = None  # [N,4] left, top, right, bottom in pixels of the upright image

    def __len__(self) -> int:
        return len(self.paths)

    def decode(self, index: int) -> Image.Image:
        image = open_rgb(self.paths[index])
        if self.crops is None:
            return image
        left, top, right, bottom = self.crops[index].round().int().tolist()
        # Some published boxes reach a pixel beyond the image.
        box = (max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height))
        if box[0] >= box[2] or box[1] >= box[3]:
            raise AibError(f"the box {box} of {self.paths[index]} lies outside of its image")
        return image.crop(box)

    def subset(self, indices: Tensor) -> "ImageFiles":
        crops = None if self.crops is None else self.crops[indices]
        return ImageFiles(tuple(self.paths[i] for i in indices.tolist()), crops)


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
    masks: Tensor | None = None  # bool [N,S,S], True on the object
    boxes: Tensor | None = None  # [N,4] left, top, right, bottom in pixels of the file's image
    box_masks: bool = False  # the masks are filled boxes
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
        _require("masks", self.masks, torch.bool, (count, side, side))
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
        """A data set from tensors: images uint8 [N,3,S,S], labels of any integer type [N]."""
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
            masks=masks,
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
    def has_only_boxes(self) -> bool:
        """Whether masks show the object's box, not its outline."""
        return self.box_masks or (self.masks is None and self.boxes is not None)

    def mask(self, index: int) -> Tensor | None:
        """The mask (or box) of the object in `pixels(index)`, bool [S,S]; None if unknown."""
        if self.masks is not None:
            return self.masks[index]
        if self.boxes is None or self.files is None:
            return None
        size = self.preprocessing.image_size
        image = self.files.decode(index)
        left, top, width, height = 0.0, 0.0, float(image.width), float(image.height)
        if self.preprocessing.resize == "crop":
            left, top, right, bottom = centre_square(image.width, image.height)
            width, height = right - left, bottom - top
        box = self.boxes[index]
        x = left + (torch.arange(size) + 0.5) * width / size  # pixel centres in the file's image
        y = top + (torch.arange(size) + 0.5) * height / size
        across = (x >= box[0]) & (x < box[2])  # [S]
        down = (y >= box[1]) & (y < box[3])  # [S]
        return down[:, None] & across[None, :]  # [S,S]

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
        return replace(
            self,
            preprocessing=target,
            images=None if self.images is None else _resize_images(self.images, new),
            masks=None if self.masks is None else _resize_masks(self.masks, new),
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
        masks = None
        if self.boxes is not None:
            masks = torch.stack([self.mask(i) for i in range(len(self))])  # type: ignore[misc]
        filled = self.has_only_boxes
        return replace(self, images=pixels, files=None, masks=masks, boxes=None, box_masks=filled)


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
    areas = F.interpolate(masks[:, None].float(), size=(size, size), mode="area")[:, 0]
    return areas >= 0.5
