"""Loading speed: our batches on the device against a plain DataLoader, in the same run. For image
files: does loading keep up with the same training step on data on the device?"""

import platform
import time
from collections.abc import Callable, Iterable
from itertools import chain, count, repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from aib.config.settings import Settings
from aib.config.validation import Cache
from aib.data import Batches, ImageSet
from aib.data.preprocessing import normalise
from aib.models.registry import create_model, family
from aib.system.environment import environment
from aib.training.loop import Loop

WARM_UP = 6  # steps: compiling, choosing algorithms


class OneByOne(Dataset):
    """The usual Dataset: pads, crops, mirrors and normalises each image on its own."""

    def __init__(self, dataset: ImageSet, pad: int, flip: bool) -> None:
        assert dataset.images is not None
        self.images, self.labels = dataset.images, dataset.labels
        self.pad, self.flip = pad, flip
        self.statistics = dataset.preprocessing.statistics()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        height, width = self.images.shape[2:]
        # numpy pads one small image faster than torch does.
        margins = ((0, 0), (self.pad, self.pad), (self.pad, self.pad))
        padded = torch.from_numpy(np.pad(self.images[index].numpy(), margins, mode="reflect"))
        top, left = torch.randint(2 * self.pad + 1, (2,)).tolist()
        pixels = padded[:, top : top + height, left : left + width]
        if self.flip and torch.rand(()) < 0.5:
            pixels = pixels.flip(2)
        return normalise(pixels, *self.statistics), self.labels[index]


def bench_data(
    dataset: ImageSet,
    *,
    batch_size: int = 256,
    workers: int = 2,
    device: str = "cpu",
    seconds: float = 5.0,
) -> dict[str, Any]:
    """Images per second of both loaders, each measured for about `seconds` after a warm-up.

    Ours also with TrivialAugment, which the DataLoader does not have.
    """
    ours, augmented = (
        Batches(
            dataset, batch_size, train=True, device=device, pad=4, flip=True, trivial_augment=more
        )
        for more in (False, True)
    )
    plain = DataLoader(
        OneByOne(dataset, 4, True),
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.startswith("cuda"),
        generator=torch.Generator().manual_seed(0),
    )
    ours_rate, augmented_rate = (
        images_per_second(map(batches.epoch, count()), seconds, device)
        for batches in (ours, augmented)
    )
    plain_rate = images_per_second(repeat(plain), seconds, device)
    return {
        "data": dataset.name,
        "image_size": dataset.preprocessing.image_size,
        "batch_size": batch_size,
        "device": device,
        "device_images_per_second": round(ours_rate),
        "trivial_augment_images_per_second": round(augmented_rate),
        "dataloader_images_per_second": round(plain_rate),
        "dataloader_workers": workers,
        "ratio": round(ours_rate / plain_rate, 2),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
    }


def bench_photos(
    data: ImageSet,
    *,
    model: str = "vgg_aib_masked",
    width: float = 1.0,
    batch_size: int = 64,
    workers: int = 2,
    device: str = "cpu",
    seconds: float = 5.0,
    cache: Cache = "auto",
) -> dict[str, Any]:
    """Images/s of training steps with the loader and on two batches that stay on the device.

    Beside them the loader alone, and with every image decoded on access by `workers` processes.
    """
    gpu = device.startswith("cuda")
    settings = Settings(
        model=model,
        epochs=1,
        batch_size=batch_size,
        clip=5.0,
        precision="bf16" if gpu else "fp32",
        channels_last=gpu,
        compile=gpu,
        accelerator="cuda" if gpu else "cpu",
        workers=workers,
        cache=cache,
    )
    size = data.preprocessing.image_size
    network = create_model(model, data.num_classes, family(model, size), width=width)
    began = time.perf_counter()
    loop = Loop(network, data, settings)
    start = time.perf_counter() - began
    assert isinstance(loop.batches, Batches)  # images, not tensors that are normalised already
    loop.take_step.objective.train()

    def step(x: Tensor, y: Tensor) -> None:
        loop.take_step(iter([(x, y)]), 0)

    resident = [next(iter(loop.batches.epoch(epoch))) for epoch in range(2)]
    for x, y in chain.from_iterable(repeat(resident, WARM_UP // 2)):
        step(x, y)
    epochs = loop.batches.epoch
    on_device = images_per_second(repeat(resident), seconds, device, step)
    together = images_per_second(map(epochs, count()), seconds, device, step)
    loader = images_per_second(map(epochs, count()), seconds, device)
    on_access = Batches(data, batch_size, train=True, device=device, workers=workers)
    return {
        "what": "data",
        "data": data.name,
        "image_size": size,
        "model": model,
        "batch_size": batch_size,
        "device": device,
        "cache": str(loop.batches.decoded or "none"),
        "start_seconds": round(start, 2),
        "images_per_second": round(together, 1),
        "on_device_images_per_second": round(on_device, 1),
        "ratio": round(together / on_device, 3),
        "loader_images_per_second": round(loader, 1),
        "on_access_images_per_second": round(
            images_per_second(map(on_access.epoch, count()), seconds, device), 1
        ),
        "workers": workers,
        "environment": environment(),
    }


def images_per_second(
    epochs: Iterable[Iterable[tuple[Tensor, Tensor]]],
    seconds: float,
    device: torch.device | str,
    step: Callable[[Tensor, Tensor], None] = lambda x, y: None,
) -> float:
    """Images per second of `step(x, y)`, for about `seconds` after three steps to warm up."""
    images, begin = 0, 0.0
    for number, (x, y) in enumerate(chain.from_iterable(epochs)):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        step(x, y)
        if number < 3:  # workers have started, memory is allocated
            _synchronise(device)
            begin = time.perf_counter()
            continue
        images += len(x)
        if time.perf_counter() - begin > seconds:
            break
    _synchronise(device)
    return images / (time.perf_counter() - begin)


def _synchronise(device: torch.device | str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
