"""Batches: the loader for training and evaluation, from memory on the device or from files."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from aib.config.validation import Cache, Count, NonNegativeInt, check, check_seed
from aib.data.augment import EpochPlan, check_cutout, crop_batch, crop_image, cut_out
from aib.data.decode import to_tensor
from aib.data.decoded import DecodedCopy, crop_copies, decode_once, fits_in_memory
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.objects import boxes_to_objects
from aib.data.preprocessing import normalise
from aib.data.split import sample_indices
from aib.data.trivial_augment import TrivialAugment
from aib.errors import AibError


@dataclass(frozen=True)
class Batch:
    """Images before normalisation, with what is known of them."""

    index: Tensor  # int64 [B], positions in the data set
    images: Tensor  # uint8 [B,3,S,S]
    labels: Tensor  # int64 [B]
    objects: Tensor | None = None  # uint8 [B,S,S]: 0 background, 1 object, 255 ignored or unknown
    boxes: Tensor | None = None  # float32 [B,4] left, top, right, bottom in pixels of `images`

    def to(self, device: torch.device | str) -> "Batch":
        """A copy of the batch on a device."""
        tensors = {name: part for name, part in vars(self).items() if part is not None}
        return replace(self, **{n: part.to(device, copy=True) for n, part in tensors.items()})


class Batches:
    """One process's share of an ImageSet, in batches on `device`.

    `epoch(e)` gives normalised images and labels: shuffled and augmented if `train`, else in order.
    To iterate over evaluation batches gives each as a `Batch` of uint8 pixels.

    `batch_size` is that of one process. Step t of all ranks together is step t of one process with
    batch_size * world_size. Training drops the images that do not fill such a global batch;
    evaluation, in one process, does not.

    Images in memory move to the device once and are cropped there; files are decoded by `workers`
    processes in every epoch, or once (`cache`): for training at the start (decode_once), for
    evaluation in the first pass. `indices` restricts the data set to some of its images. `pad`
    (pixels, images in memory only) and `flip` default to the data set's. With `alternate_flip`
    every second epoch mirrors exactly the images that the one before did not.
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
        check("workers", workers, NonNegativeInt)
        check_seed(seed)
        if not 0 <= rank < world_size:
            raise AibError(f"rank must be below world_size, not {rank} of {world_size}")
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
        check_cutout(cutout, size)
        if train and data.images is not None and not 0 <= self.pad < size:
            raise AibError(f"crop padding of {self.pad} needs images larger than {size} x {size}")
        self._spans = self._rank_spans()
        if not self._spans and train:
            raise AibError(
                f"{self.num_images} training images are fewer than one batch of {batch_size} on "
                f"{world_size} process(es): choose a smaller batch size"
            )
        self._statistics = data.preprocessing.statistics(self.device)
        self.decoded: DecodedCopy | None = None
        if self.augment and isinstance(data.files, ImageFiles):
            decoded = decode_once(data, cache, world_size)
            self.decoded = decoded.to(self.device) if decoded else None
        self._keeps = not train and data.files is not None and fits_in_memory(data, cache)
        self._kept: dict[int, Batch] = {}  # evaluation batches by step, on the host
        by_workers = data.files is not None and self.decoded is None
        where = "cpu" if by_workers else self.device
        augments = train and trivial_augment
        self._operations = TrivialAugment(size, size, where) if augments else None
        self._labels = data.labels.to(self.device)  # [N]
        if data.images is not None:
            self._images = data.images.contiguous().to(self.device)  # [N,3,S,S]

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
        chosen._spans, chosen._kept = chosen._rank_spans(), {}
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
        on_device = self._move(uniform).split(sizes)
        if self.decoded is not None:
            batches = self._from_copy(self.decoded, index, sizes, on_device)
        elif self._keeps:
            batches = self._from_first_pass(index, uniform, sizes, start)
        elif self.data.images is None:
            batches = self._from_files(index, uniform, sizes, objects, epoch)
        else:
            batches = self._from_memory(self._move(index).split(sizes), on_device, objects)
        yield from zip(batches, on_device, strict=True)

    def _from_memory(
        self, indices: Sequence[Tensor], uniform: Sequence[Tensor], objects: bool
    ) -> Iterator[Batch]:
        size = self.data.preprocessing.image_size
        stored, boxes = (
            known.to(self.device) if objects and known is not None else None
            for known in (self.data.objects, self.data.boxes)
        )
        for index, u in zip(indices, uniform, strict=True):
            if self.train:
                images = crop_batch(self._images, index, u, pad=self.pad, flip=self.flip)
                images = self._operations(images, u) if self._operations else images
            else:
                images = self._images.index_select(0, index)
            box = None if boxes is None else boxes.index_select(0, index).clamp(0, size)
            mask = None if stored is None else stored.index_select(0, index)
            if mask is None and box is not None:
                mask = boxes_to_objects(box, (size, size)).to(torch.uint8)
            yield Batch(index, images, self._labels.index_select(0, index), mask, box)

    def _from_copy(
        self, decoded: DecodedCopy, index: Tensor, sizes: list[int], uniform: Sequence[Tensor]
    ) -> Iterator[Batch]:
        size, on_device = self.data.preprocessing.image_size, self._move(index).split(sizes)
        for there, here, u in zip(on_device, index.split(sizes), uniform, strict=True):
            on_host = decoded.images.device != there.device
            squares = decoded.images.index_select(0, here if on_host else there)
            squares = self._move(squares) if on_host else squares
            images = crop_copies(squares, decoded.ratios.index_select(0, there), u, size, self.flip)
            images = self._operations(images, u) if self._operations else images
            yield Batch(there, images, self._labels.index_select(0, there))

    def _from_files(
        self, index: Tensor, uniform: Tensor, sizes: list[int], objects: bool, epoch: int = 0
    ) -> Iterator[Batch]:
        objects = objects and self.data.has_objects
        chosen = uniform if self.augment else None
        # Its own generator: else the loader takes a number from the global one, and the model's
        # noise would depend on how often an epoch was resumed. It seeds the workers, and with them
        # a user's random `transform`.
        generator = torch.Generator()
        if self.train:
            mixed = np.random.SeedSequence([self.seed, epoch, self.rank]).generate_state(1)[0]
            generator.manual_seed(int(mixed))
        loader: DataLoader = DataLoader(
            _Decoded(self.data, index, chosen, self.flip, objects, self._operations),
            batch_sampler=[part.tolist() for part in torch.arange(len(index)).split(sizes)],
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            generator=generator,
            collate_fn=_collate,
        )
        for loaded in loader:
            if isinstance(loaded, AibError):
                raise loaded
            yield Batch(*(part.to(self.device, non_blocking=True) for part in loaded))

    def _from_first_pass(
        self, index: Tensor, uniform: Tensor, sizes: list[int], start: int
    ) -> Iterator[Batch]:
        """Evaluation batches of files with their masks, decoded in the first pass only."""
        steps = range(start, start + len(sizes))
        if all(step in self._kept for step in steps):
            yield from (self._kept[step].to(self.device) for step in steps)
            return
        decoded = self._from_files(index, uniform, sizes, objects=True)
        for step, batch in zip(steps, decoded, strict=True):
            self._kept[step] = batch.to("cpu")
            yield batch

    def _move(self, tensor: Tensor) -> Tensor:
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)


@dataclass(frozen=True)
class _Decoded(Dataset):
    """The epoch as worker processes see it: item p is its p-th image, decoded and resized.

    An AibError is returned as an item, since torch would add a worker's traceback to its message.
    """

    data: ImageSet
    index: Tensor
    uniform: Tensor | None
    flip: bool
    objects: bool
    operations: TrivialAugment | None

    def __getitem__(self, position: int) -> tuple[Any, ...] | AibError:
        index = int(self.index[position])
        try:
            item = (index, self._pixels(index, position), int(self.data.labels[index]))
            if not self.objects:
                return item
            box = self.data.box(index)
            return (*item, self.data.known_object(index), *([] if box is None else [box]))
        except AibError as error:
            return error

    def _pixels(self, index: int, position: int) -> Tensor:
        if self.uniform is None:
            return self.data.pixels(index)
        assert self.data.files is not None
        image, size = self.data.files.decode(index), self.data.preprocessing.image_size
        u = self.uniform[position]
        pixels = to_tensor(crop_image(image, u, size=size, flip=self.flip))
        return self.operations(pixels[None], u[None])[0] if self.operations else pixels


def _collate(items: list[Any]) -> Any:
    errors = [item for item in items if isinstance(item, AibError)]
    return errors[0] if errors else default_collate(items)
