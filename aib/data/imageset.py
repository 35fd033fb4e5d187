"""ImageSet: labelled images with their preprocessing, in memory or on disk."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from aib.data.decode import centre_square, resized, to_tensor, upright_size
from aib.data.objects import IGNORED, boxes_to_objects, to_uint8
from aib.data.preprocessing import Preprocessing
from aib.data.sources import ImageFiles
from aib.data.specs import Spec
from aib.errors import AibError, counted
from aib.system.environment import machine_memory

# Image files are decoded once and stay in memory up to this image size.
SMALL_SIDE = 64
CHUNK = 1 << 22  # pixels per step of resizing


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(Dataset):
    """N labelled images, either in memory (`images`) or on disk (`files`).

    As a torch Dataset its items are (uint8 [3,S,S], label), S = preprocessing.image_size.
    """

    name: str
    split: str
    labels: Tensor  # int64 [N]
    preprocessing: Preprocessing
    images: Tensor | None = None  # uint8 [N,3,S,S]
    files: ImageFiles | None = None
    objects: Tensor | None = None  # uint8 [N,S,S]: 0 background, 1 object, 255 ignored
    boxes: Tensor | None = None  # [N,4] left, top, right, bottom in pixels of `images` or the file
    mirror: bool = True  # a mirrored image keeps its class
    # Pixels of reflect padding for training crops of images in memory; None: an eighth of the side.
    pad: int | None = None
    skipped: tuple[str, ...] = ()  # an error message for each file that could not be read
    # What identifies each image in its data set: the path of its file in the folder, else its
    # index. A run records the keys of the images that it held out.
    keys: tuple[str | int, ...] = ()
    labelled: bool = True  # else all labels are 0, until a teacher predicts them

    def __post_init__(self) -> None:
        count = len(self.labels)
        if not self.keys:
            object.__setattr__(self, "keys", tuple(range(count)))
        _require("labels", self.labels, torch.int64, (count,))
        found = len(self.images if self.files is None else self.files)  # type: ignore[arg-type]
        if found != count or not count:
            raise AibError(f"{self.name} {self.split} has {found} images and {count} labels")
        side = self.preprocessing.image_size
        _require("images", self.images, torch.uint8, (count, 3, side, side))
        _require("objects", self.objects, torch.uint8, (count, side, side))
        _require("boxes", self.boxes, torch.float32, (count, 4))
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= self.num_classes:
            raise AibError(f"{self.name} has labels {low} to {high} of {self.num_classes} classes")

    def __repr__(self) -> str:
        return f"ImageSet({self.name} {self.split}: {counted(len(self), 'image')})"

    def describe_skipped(self) -> str:
        """A sentence on the files that could not be read."""
        return f"{counted(len(self.skipped), 'unreadable file')} left out: {self.skipped[0]}"

    @classmethod
    def of(
        cls,
        spec: Spec,
        split: str,
        labels: Tensor,
        class_names: tuple[str, ...] = (),
        **content: Any,
    ) -> "ImageSet":
        """A known data set: its spec with these images or files, and other class names if given."""
        names = class_names or spec.classes
        policy = Preprocessing(spec.image_size, "squash", spec.mean, spec.std, names)
        return cls(spec.name, split, labels, policy, mirror=spec.mirror, pad=spec.pad, **content)

    @classmethod
    def from_tensors(
        cls,
        images: Tensor | NDArray[np.uint8],
        labels: Tensor | NDArray[np.integer] | Sequence[int],
        *,
        class_names: Sequence[str] = (),
        objects: Tensor | NDArray[Any] | None = None,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (0.5, 0.5, 0.5),
        name: str = "custom",
        split: str = "train",
        mirror: bool = True,
    ) -> "ImageSet":
        """A data set from tensors or arrays: images uint8 [N,3,S,S], labels [N] of an integer type.

        `objects` [N,S,S] are bool, or uint8: 0 background, 1 object, 255 ignored in every score.
        """
        images, labels = torch.as_tensor(images), torch.as_tensor(labels)
        if labels.is_floating_point() and len(labels):
            raise AibError("labels must be integers")
        if not class_names and len(labels):
            class_names = [str(i) for i in range(int(labels.max()) + 1)]
        return cls(
            name,
            split,
            labels.to(torch.int64),
            Preprocessing(images.shape[-1], "squash", tuple(mean), tuple(std), tuple(class_names)),
            images=images,
            objects=None if objects is None else to_uint8(torch.as_tensor(objects)),
            mirror=mirror,
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
        return self.objects is not None or (self.files is not None and bool(self.files.objects))

    @property
    def has_objects(self) -> bool:
        """Whether there are masks, or boxes to make them of."""
        return self.has_outlines or self.boxes is not None

    def mask(self, index: int) -> Tensor:
        """The mask (or filled box) of the object in `pixels(index)`, uint8 [S,S].

        0 is background, 1 the object, 255 a pixel that counts in no score, as all do that are
        unknown.
        """
        if self.objects is not None:
            return self.objects[index]
        size, box = self.preprocessing.image_size, self.box(index)
        if self.files is not None and self.has_outlines:
            mask = self.files.decode_mask(index)
            if mask is not None:
                return torch.from_numpy(np.array(resized(mask, size, self.preprocessing.resize)))
        elif box is not None:
            return boxes_to_objects(box[None], (size, size))[0].to(torch.uint8)
        return torch.full((size, size), IGNORED, dtype=torch.uint8)

    def box(self, index: int) -> Tensor | None:
        """The object's box in `pixels(index)` and clipped to it, float32 [4]; None if unknown."""
        if self.boxes is None:
            return None
        box, size = self.boxes[index], self.preprocessing.image_size
        if self.files is not None:
            width, height = upright_size(self.files.paths[index])
            left, top, right, bottom = 0.0, 0.0, float(width), float(height)
            if self.preprocessing.resize == "crop":
                left, top, right, bottom = centre_square(width, height)
            scale = torch.tensor([size / (right - left), size / (bottom - top)]).repeat(2)
            box = (box - torch.tensor([left, top]).repeat(2)) * scale
        return box.clamp(0, size)

    def subset(self, indices: Tensor) -> "ImageSet":
        """The images at these indices, in this order."""
        tensors = {n: getattr(self, n) for n in ("labels", "images", "objects", "boxes")}
        return replace(
            self,
            files=None if self.files is None else self.files.subset(indices),
            keys=tuple(self.keys[i] for i in indices.tolist()),
            **{n: tensor[indices] for n, tensor in tensors.items() if tensor is not None},
        )

    def prepared_for(self, preprocessing: Preprocessing) -> "ImageSet":
        """The images resized and normalised for a model with this preprocessing.

        For data that a model was not trained on, of another size for instance. Class names stay.
        """
        target = replace(preprocessing, class_names=self.class_names)
        old, new = self.preprocessing.image_size, target.image_size
        changed: dict[str, Any] = {"preprocessing": target}
        if old != new and self.pad:
            changed["pad"] = max(self.pad * new // old, 1)
        if old != new and self.images is not None:
            check_memory(len(self), new)
            changed["images"] = _resize_images(self.images, new)
            if self.boxes is not None:
                changed["boxes"] = self.boxes * new / old
        if old != new and self.objects is not None:
            objects = self.objects[:, None]  # [N,1,S,S]
            changed["objects"] = F.interpolate(objects, (new, new), mode="nearest-exact")[:, 0]
        return replace(self, **changed)

    def in_memory(self) -> "ImageSet":
        """Decode all files now, at the model's size: for sets that fit on the device."""
        if self.images is not None:
            return self
        check_memory(len(self), self.preprocessing.image_size)
        with ThreadPoolExecutor() as pool:  # Pillow releases the GIL

            def stacked(read: Callable[[int], Any], there: bool = True) -> Tensor | None:
                return torch.stack(list(pool.map(read, range(len(self))))) if there else None

            return replace(
                self,
                files=None,
                images=stacked(self.pixels),  # [N,3,S,S]
                objects=stacked(self.mask, self.has_outlines),
                boxes=stacked(self.box, self.boxes is not None),
            )


def check_memory(count: int, size: int) -> None:
    """Raise an error if images do not fit into memory: else the system kills the process."""
    needed, available = 3 * count * size * size, machine_memory()
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
