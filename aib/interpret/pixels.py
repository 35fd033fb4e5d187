"""Images as the modifications want them: uint8 batches on the device, each with its place."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from aib.data import ImageSet
from aib.data.workers import decoded


@dataclass(frozen=True)
class Pixels:
    """A batch before normalisation."""

    index: Tensor  # [B], places in the data set: what the random draws depend on
    images: Tensor  # uint8 [B,3,S,S]
    labels: Tensor  # [B]
    masks: Tensor | None  # bool [B,S,S]


@dataclass(frozen=True)
class Feed:
    """Some images of a data set, in batches, as often as one likes."""

    data: ImageSet
    chosen: Tensor  # [n], rising places in the data set
    batch_size: int = 256
    device: torch.device | str = "cpu"
    workers: int = 0

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[Pixels]:
        return self._from_memory() if self.data.images is not None else self._from_files()

    def few(self, count: int, seed: int) -> "Feed":
        """A seeded sample of the images, for what is too expensive to do with all of them."""
        kept = self.chosen[sample(len(self.chosen), count, seed)]
        return Feed(self.data, kept, self.batch_size, self.device, self.workers)

    def _from_memory(self) -> Iterator[Pixels]:
        images, masks = self.data.images, self.data.masks
        assert images is not None
        for index in self.chosen.split(self.batch_size):
            yield Pixels(
                index.to(self.device),
                images[index].to(self.device),
                self.data.labels[index].to(self.device),
                None if masks is None else masks[index].to(self.device),
            )

    def _from_files(self) -> Iterator[Pixels]:
        has_masks = self.data.boxes is not None
        items = _Decoded(self.data, self.chosen)
        for index, images, labels, masks in decoded(
            items, self.workers, batch_size=self.batch_size
        ):
            yield Pixels(
                index.to(self.device),
                images.to(self.device),
                labels.to(self.device),
                masks.to(self.device) if has_masks else None,
            )


class _Decoded(Dataset):
    """Decoding, in worker processes; a set without boxes gives empty masks."""

    def __init__(self, data: ImageSet, chosen: Tensor) -> None:
        self.data, self.chosen = data, chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, position: int) -> tuple[int, Tensor, int, Tensor]:
        index = int(self.chosen[position])
        mask = self.data.mask(index)
        pixels, label = self.data[index]
        return index, pixels, label, torch.zeros(0) if mask is None else mask


def sample(count: int, wanted: int | None, seed: int) -> Tensor:
    """`wanted` of `count` places at random, in rising order; all of them where it is None."""
    if wanted is None or wanted >= count:
        return torch.arange(count)
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[:wanted].sort().values
