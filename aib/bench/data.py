"""How fast are the batches? Ours on the device against a plain DataLoader, in the same run."""

import platform
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from aib.data.batches import Batches
from aib.data.imageset import ImageSet


class OneByOne(Dataset):
    """The usual way: each image padded, cropped, mirrored and normalised on its own."""

    def __init__(self, dataset: ImageSet, pad: int, flip: bool) -> None:
        assert dataset.images is not None
        self.images, self.labels = dataset.images, dataset.labels
        self.pad, self.flip = pad, flip
        self.mean = torch.tensor(dataset.preprocessing.mean).view(3, 1, 1)
        self.std = torch.tensor(dataset.preprocessing.std).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        height, width = self.images.shape[2:]
        # numpy pads one small image faster than torch does: the rival gets the quicker one.
        margins = ((0, 0), (self.pad, self.pad), (self.pad, self.pad))
        padded = torch.from_numpy(np.pad(self.images[index].numpy(), margins, mode="reflect"))
        top, left = torch.randint(2 * self.pad + 1, (2,)).tolist()
        pixels = padded[:, top : top + height, left : left + width]
        if self.flip and torch.rand(()) < 0.5:
            pixels = pixels.flip(2)
        return pixels.float().div_(255).sub_(self.mean).div_(self.std), self.labels[index]


def bench_data(
    dataset: ImageSet,
    *,
    batch_size: int = 256,
    workers: int = 2,
    device: str = "cpu",
    seconds: float = 5.0,
    pad: int = 4,
    flip: bool = True,
) -> dict[str, Any]:
    """Images per second of both, measured for about `seconds` each after a warm-up."""
    ours = Batches(dataset, batch_size, train=True, device=device, pad=pad, flip=flip)
    plain = DataLoader(
        OneByOne(dataset, pad, flip),
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.startswith("cuda"),
        generator=torch.Generator().manual_seed(0),
    )
    ours_rate = _rate((ours.epoch(e) for e in range(1_000_000)), seconds, device)
    plain_rate = _rate((plain for _ in range(1_000_000)), seconds, device)
    return {
        "data": dataset.name,
        "image_size": dataset.preprocessing.image_size,
        "batch_size": batch_size,
        "device": device,
        "device_images_per_second": round(ours_rate),
        "dataloader_images_per_second": round(plain_rate),
        "dataloader_workers": workers,
        "ratio": round(ours_rate / plain_rate, 2),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
    }


def _rate(epochs: Iterable[Iterable[tuple[Tensor, Tensor]]], seconds: float, device: str) -> float:
    images, begin = 0, 0.0
    steps = (batch for epoch in epochs for batch in epoch)
    for step, (x, y) in enumerate(steps):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        if step == 2:  # workers are up, memory is allocated
            _finish(device)
            images, begin = 0, time.perf_counter()
        images += len(x)
        if step > 2 and time.perf_counter() - begin > seconds:
            break
    _finish(device)
    # The batch that started the clock was ready before it ran.
    return (images - len(x)) / (time.perf_counter() - begin)


def _finish(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
