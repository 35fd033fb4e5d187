"""Batches: feeds a model, from uint8 pixels on the device or from files through workers."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import Dataset

from aib.data.augment import EpochPlan, check_cutout, crop_batch, crop_image, cut_out
from aib.data.decode import to_tensor
from aib.data.imageset import ImageSet
from aib.data.workers import check_workers, decoded
from aib.errors import AibError

Batch = tuple[Tensor, Tensor]  # x float32 [B,3,S,S] normalised, y int64 [B]


class Batches:
    """One rank's share of an ImageSet, a batch at a time, as normalised floats on `device`.

    `batch_size` is one rank's. Step t of all ranks together is step t of one process with
    batch_size * world_size; in training what is left below such a global batch is dropped, in
    evaluation never (the last batches are smaller, and a rank may have one fewer).

    Images in memory move to the device once and are cropped there; files are decoded by `workers`
    processes. `pad` (pixels, images in memory only) and `flip` default to what suits the data set;
    `cutout` is the side of a blank square in each training image, 0 for none.
    """

    def __init__(
        self,
        dataset: ImageSet,
        batch_size: int,
        *,
        train: bool,
        device: torch.device | str = "cpu",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        workers: int = 0,
        pad: int | None = None,
        flip: bool | None = None,
        cutout: int = 0,
    ) -> None:
        if batch_size < 1 or seed < 0 or not 0 <= rank < world_size:
            raise AibError(
                f"batches need batch_size >= 1, seed >= 0, 0 <= rank < world_size: "
                f"{batch_size}, {seed}, {rank} of {world_size}"
            )
        self.dataset, self.batch_size, self.train = dataset, batch_size, train
        self.device, self.seed, self.workers = torch.device(device), seed, check_workers(workers)
        self.rank, self.world_size = rank, world_size
        self.pad = dataset.pad if pad is None else pad
        self.flip = dataset.mirror if flip is None else flip
        self.cutout = cutout if train else 0
        self.augment = pad != 0 or flip is not False  # both off: images as evaluation sees them
        size = dataset.preprocessing.image_size
        check_cutout(cutout, size)
        if train and dataset.images is not None and not 0 <= self.pad < size:
            raise AibError(f"crop padding of {self.pad} needs images larger than {size} x {size}")
        self._spans = self._rank_spans()
        if not self._spans and train:
            raise AibError(
                f"{len(dataset)} training images are fewer than one batch of {batch_size} on "
                f"{world_size} process(es): take a smaller batch"
            )
        # Made here, once: a constant built inside the loop would make the host wait for the device.
        self._mean = torch.tensor(dataset.preprocessing.mean, device=self.device).view(3, 1, 1)
        self._std = torch.tensor(dataset.preprocessing.std, device=self.device).view(3, 1, 1)
        if dataset.images is not None:
            self._images = dataset.images.contiguous().to(self.device)  # [N,3,S,S]
            self._labels = dataset.labels.to(self.device)  # [N]

    def __len__(self) -> int:
        """Steps of an epoch on this rank."""
        return len(self._spans)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch from step `start` on, the same whether or not it is resumed."""
        plan = self._plan(epoch)
        if self.dataset.images is not None:
            return self._from_device(plan, start)
        return self._from_workers(plan, start)

    def indices(self, epoch: int) -> list[Tensor]:
        """Which samples of the data set make up each step of an epoch, [B] each."""
        order = self._plan(epoch).order
        return [order[begin:end] for begin, end in self._spans]

    def _plan(self, epoch: int) -> EpochPlan:
        if self.train:
            return EpochPlan.draw(len(self.dataset), seed=self.seed, epoch=epoch)
        return EpochPlan.in_order(len(self.dataset))

    def _rank_spans(self) -> list[tuple[int, int]]:
        """Positions [begin, end) in the epoch's order of each of this rank's batches."""
        count, whole = len(self.dataset), self.batch_size * self.world_size
        begins = [t * whole + self.rank * self.batch_size for t in range(count // whole)]
        spans = [(begin, begin + self.batch_size) for begin in begins]
        rest = count % whole
        if rest and not self.train:
            # Shared out evenly; with fewer samples than ranks some get none.
            first = count - rest
            begin = first + rest * self.rank // self.world_size
            end = first + rest * (self.rank + 1) // self.world_size
            spans += [(begin, end)] if end > begin else []
        return spans

    def _from_device(self, plan: EpochPlan, start: int) -> Iterator[Batch]:
        spans = self._spans[start:]
        if not spans:
            return
        # This rank's rows, side by side, in one transfer each: the loop then never waits.
        mine = torch.cat([torch.arange(begin, end) for begin, end in spans])
        order, uniform = self._move(plan.order[mine]), self._move(plan.uniform[mine])
        done = 0
        for begin, end in spans:
            here = slice(done, done + end - begin)
            done = here.stop
            if self.train:
                pixels = crop_batch(
                    self._images, order[here], uniform[here], pad=self.pad, flip=self.flip
                )
            else:
                pixels = self._images.index_select(0, order[here])
            x = self._finish(pixels, uniform[here])
            yield x, self._labels.index_select(0, order[here])

    def _from_workers(self, plan: EpochPlan, start: int) -> Iterator[Batch]:
        spans = self._spans[start:]
        loaded = decoded(
            _Decoded(self.dataset, plan, self.train and self.augment, self.flip),
            self.workers,
            batch_sampler=[list(range(begin, end)) for begin, end in spans],
            pin_memory=self.device.type == "cuda",
        )
        for (begin, end), (pixels, labels) in zip(spans, loaded, strict=True):
            pixels = pixels.to(self.device, non_blocking=True)
            x = self._finish(pixels, plan.uniform[begin:end].to(self.device))
            yield x, labels.to(self.device, non_blocking=True)

    def _move(self, tensor: Tensor) -> Tensor:
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)

    def _finish(self, pixels: Tensor, uniform: Tensor) -> Tensor:
        """`Preprocessing.normalise` to the bit, with constants that are there; then the cut-out."""
        x = pixels.float().div_(255).sub_(self._mean).div_(self._std)
        return cut_out(x, uniform, self.cutout) if self.cutout else x


class _Decoded(Dataset):
    """The epoch as workers see it: item p is the p-th sample, decoded and resized."""

    def __init__(self, dataset: ImageSet, plan: EpochPlan, augment: bool, flip: bool) -> None:
        self.dataset, self.plan, self.augment, self.flip = dataset, plan, augment, flip

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        index = int(self.plan.order[position])
        return self._pixels(index, position), int(self.dataset.labels[index])

    def _pixels(self, index: int, position: int) -> Tensor:
        if not self.augment:
            return self.dataset.pixels(index)
        assert self.dataset.files is not None
        image = crop_image(
            self.dataset.files.decode(index),
            self.plan.uniform[position],
            size=self.dataset.preprocessing.image_size,
            flip=self.flip,
        )
        return to_tensor(image)
