"""Training from image files: does loading keep up with the same step on data on the device?"""

import time
from itertools import chain, count, repeat
from typing import Any

from torch import Tensor

from aib.bench.data import images_per_second
from aib.choices import Cache
from aib.data import Batches, ImageSet
from aib.environment import environment
from aib.registry import create_model, family
from aib.settings import Settings
from aib.training.loop import Loop

WARM_UP = 6  # steps: compiling, choosing algorithms


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
