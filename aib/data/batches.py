"""Batches: the loader for training and evaluation, from memory on the device or from files."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from aib.config.validation import Cache, Count, check
from aib.data.augment import EpochPlan, crop_batch, crop_image, crop_squares, cut_out
from aib.data.decode import to_tensor
from aib.data.decoded import decode_once
from aib.data.imageset import ImageSet
from aib.data.objects import boxes_to_objects
from aib.data.preprocessing import normalise
from aib.data.split import sample_indices
from aib.data.trivial_augment import TrivialAugment
from aib.errors import AibError

BATCH = 256  # images at once; fewer of large images on a CPU:
CPU_PIXELS = 2**19  # at once, over the attention samples, which bounds the memory
DEVICE_SHARE = 0.25  # of a GPU's free memory that images may take


@dataclass(frozen=True)
class Batch:
    """Images before normalisation, with what is known of them."""

    index: Tensor  # int64 [B], positions in the data set
    images: Tensor  # uint8 [B,3,S,S]
    labels: Tensor  # int64 [B]
    objects: Tensor | None = None  # uint8 [B,S,S]: 0 background, 1 object, 255 ignored or unknown
    boxes: Tensor | None = None  # float32 [B,4] left, top, right, bottom in pixels of `images`


class Batches:
    """One process's share of an ImageSet, in batches on `device`.

    `epoch(e)` gives normalised images and labels: shuffled and augmented if `train`, else in order.
    To iterate over evaluation batches gives each as a `Batch` of uint8 pixels.

    `batch_size` is that of one process. Step t of all ranks together is step t of one process with
    batch_size * world_size. Training drops the images that do not fill such a global batch.

    Images in memory move to the device once and are cropped there; files are decoded by `workers`
    processes in every epoch, or for training once (`cache`, see decode_once). `pad` (pixels, images
    in memory only) and `flip` default to the data set's. With `alternate_flip` every second epoch
    mirrors exactly the images that the one before did not.
    """

    def __init__(
        self,
        data: ImageSet,
        batch_size: int,
        *,
        train: bool = False,
        indices: Tensor | None = None,
        device: torch.device | str = "cpu",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        workers: int = 0,
        pad: int | None = None,
        flip: bool | None = None,
        cutout: int = 0,  # side of a blank square in each training image
        trivial_augment: bool = False,
        alternate_flip: bool = False,
        cache: Cache = "none",
    ) -> None:
        check("batch_size", batch_size, Count)
        self.data, self.batch_size, self.train = data, batch_size, train
        self.indices = torch.arange(len(data)) if indices is None else indices
        self.device, self.seed, self.workers = torch.device(device), seed, workers
        self.rank, self.world_size = rank, world_size
        self.flip = data.mirror if flip is None else flip
        self.cutout = cutout if train else 0
        self.alternate_flip = alternate_flip
        self.augment = train and (pad != 0 or flip is not False or trivial_augment)
        size = data.preprocessing.image_size
        self.pad = next((p for p in (pad, data.pad) if p is not None), size // 8)
        if not (0 <= self.pad < size and 0 <= cutout < 2 * size - 1):
            raise AibError(
                f"crop padding of {self.pad} or a cut-out of {cutout} does not suit images of "
                f"{size} x {size}"
            )
        self._spans = self._rank_spans()
        if not self._spans and train:
            raise AibError(
                f"{self.num_images} training images are fewer than one batch of {batch_size} on "
                f"{world_size} process(es): choose a smaller batch size"
            )
        self._statistics = data.preprocessing.statistics(self.device)
        self._images: Any = data.images  # uint8 [N,3,S,S] or, with ratios [N], squares [N,3,C,C]
        self._ratios: Tensor | None = None
        if self.augment and (squares := decode_once(data, cache, world_size)):
            self._images, self._ratios = squares[0], squares[1].to(self.device)
        where = "cpu" if self._images is None else self.device
        augments = train and trivial_augment
        self._operations = TrivialAugment(size, size, where) if augments else None
        self._labels = data.labels.to(self.device)  # [N]
        if self._images is not None:
            self._images = to_device(self._images.contiguous(), self.device)

    def __len__(self) -> int:
        """Number of batches per epoch on this rank."""
        return len(self._spans)

    @property
    def num_images(self) -> int:
        """On all ranks together."""
        return len(self.indices)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Normalised x float32 [B,3,S,S] and y int64 [B], from step `start` of the epoch on.

        The same batches whether or not the epoch is resumed.
        """
        for batch, uniform in self._load(epoch, start, objects=False):
            x = normalise(batch.images, *self._statistics)
            yield cut_out(x, uniform, self.cutout) if self.cutout else x, batch.labels

    def __iter__(self) -> Iterator[Batch]:
        if self.train:
            raise AibError("only evaluation batches can be iterated: use epoch() in training")
        return (batch for batch, _ in self._load(0, 0, objects=True))

    def subset(self, positions: Tensor) -> "Batches":
        """Batches of the images at these positions of `indices`."""
        chosen = copy.copy(self)  # shares the images on the device
        chosen.indices = self.indices[positions]
        chosen._spans = chosen._rank_spans()
        return chosen

    def sample(self, count: int, seed: int) -> "Batches":
        """Batches of at most `count` images, sampled without replacement."""
        return self.subset(sample_indices(self.num_images, count, seed))

    def _rank_spans(self) -> list[tuple[int, int]]:
        """Positions [begin, end) in the epoch's order of each of this rank's batches."""
        count, whole = self.num_images, self.batch_size * self.world_size
        begins = [t * whole + self.rank * self.batch_size for t in range(count // whole)]
        spans = [(begin, begin + self.batch_size) for begin in begins]
        rest = count % whole
        if rest and not self.train:
            spans.append((count - rest, count))
        return spans

    def _load(self, epoch: int, start: int, objects: bool) -> Iterator[tuple[Batch, Tensor]]:
        """This rank's batches from step `start` on, with the random numbers [B,10] of each."""
        spans = self._spans[start:]
        if not spans:
            return
        plan = EpochPlan(torch.arange(self.num_images), torch.empty(self.num_images, 0))
        if self.train:
            plan = EpochPlan.sample(self.num_images, seed=self.seed, epoch=epoch)
            if self.alternate_flip:
                plan = plan.alternate_flip(seed=self.seed, epoch=epoch)
        mine = torch.cat([torch.arange(*span) for span in spans])
        index, uniform = self.indices[plan.order[mine]], plan.uniform[mine]
        sizes = [end - begin for begin, end in spans]
        # One transfer for the whole epoch: the loop then never waits for the device.
        on_device = move(uniform, self.device).split(sizes)
        if self._images is None:
            batches = self._from_files(index, uniform, sizes, objects)
        else:
            batches = self._from_memory(index, on_device, sizes, objects)
        yield from zip(batches, on_device, strict=True)

    def _from_memory(
        self, index: Tensor, uniform: Sequence[Tensor], sizes: list[int], objects: bool
    ) -> Iterator[Batch]:
        size, on_device = self.data.preprocessing.image_size, move(index, self.device).split(sizes)
        stored, boxes = (
            part.to(self.device) if objects and part is not None else None
            for part in (self.data.objects, self.data.boxes)
        )
        for on_host, rows, u in zip(index.split(sizes), on_device, uniform, strict=True):
            stored_images, chosen = self._images, rows
            if stored_images.device != rows.device:  # too many for the GPU's memory
                stored_images = move(stored_images.index_select(0, on_host), self.device)
                chosen = torch.arange(len(rows), device=self.device)
            if self._ratios is not None:
                squares, ratios = stored_images.index_select(0, chosen), self._ratios[rows]
                images = crop_squares(squares, ratios, u, size=size, flip=self.flip)
            elif self.train:
                images = crop_batch(stored_images, chosen, u, pad=self.pad, flip=self.flip)
            else:
                images = stored_images.index_select(0, chosen)
            if self._operations:
                images = self._operations(images, u)
            box = None if boxes is None else boxes.index_select(0, rows).clamp(0, size)
            mask = None if stored is None else stored.index_select(0, rows)
            if mask is None and box is not None:
                mask = boxes_to_objects(box, (size, size)).to(torch.uint8)
            yield Batch(rows, images, self._labels.index_select(0, rows), mask, box)

    def _from_files(
        self, index: Tensor, uniform: Tensor, sizes: list[int], objects: bool
    ) -> Iterator[Batch]:
        objects = objects and self.data.has_objects
        chosen = uniform if self.augment else None
        loader: DataLoader = DataLoader(
            _Decoded(self.data, index, chosen, self.flip, objects, self._operations),
            batch_sampler=[part.tolist() for part in torch.arange(len(index)).split(sizes)],
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator(),  # the global one is the model's
        )
        try:
            for loaded in loader:
                yield Batch(*(part.to(self.device, non_blocking=True) for part in loaded))
        except AibError as error:  # a worker's comes with its traceback
            raise AibError(str(error).rpartition("AibError: ")[2].strip()) from None


def default_batch(device: torch.device, image_size: int, samples: int) -> int:
    """Images at once that fit the memory of a usual machine."""
    if device.type != "cpu":
        return BATCH
    return min(BATCH, max(1, CPU_PIXELS // (samples * image_size**2)))


def move(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on the device, without waiting for a GPU."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def to_device(images: Tensor, device: torch.device) -> Tensor:
    """The images on the device, or as they are if they take too much of a GPU's memory."""
    if device.type == "cuda" and images.nbytes > DEVICE_SHARE * torch.cuda.mem_get_info(device)[0]:
        return images
    return images.to(device)


@dataclass(frozen=True)
class _Decoded(Dataset):
    """The epoch as worker processes see it: item p is its p-th image, decoded and resized."""

    data: ImageSet
    index: Tensor
    uniform: Tensor | None
    flip: bool
    objects: bool
    operations: TrivialAugment | None

    def __getitem__(self, position: int) -> tuple[Any, ...]:
        index = int(self.index[position])
        item = (index, self._pixels(index, position), int(self.data.labels[index]))
        if not self.objects:
            return item
        box = self.data.box(index)
        return (*item, self.data.mask(index), *([] if box is None else [box]))

    def _pixels(self, index: int, position: int) -> Tensor:
        if self.uniform is None:
            return self.data.pixels(index)
        assert self.data.files is not None
        image, size = self.data.files.decode(index), self.data.preprocessing.image_size
        u = self.uniform[position]
        pixels = to_tensor(crop_image(image, u, size=size, flip=self.flip))
        return self.operations(pixels[None], u[None])[0] if self.operations else pixels
