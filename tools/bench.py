"""Speed of this machine, each rate as a ratio within the same run. Prints JSON.

    python -m tools.bench train --model vgg_aib_qt        # a training step, a plain loop, a matrix
    python -m tools.bench data --data folder:photos       # training steps with and without loading
    python -m tools.bench latency --model tiny_aib_qt     # one pass: eager, compiled, ONNX

Absolute rates differ between machines and days; the ratios compare measurements a minute apart.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain, count, repeat
from typing import Any

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torch.utils.flop_counter import FlopCounterMode

from aib.config.settings import Settings
from aib.data import ImageSet, load
from aib.data.preprocessing import normalise
from aib.export.one_pass import OnePass, describe, traceable
from aib.export.onnx_file import open_onnx, to_onnx
from aib.models.classifier import Classifier
from aib.models.loss import aib_loss
from aib.models.modes import DTYPES
from aib.models.registry import create_model, family
from aib.system.environment import environment, pick_device
from aib.training.fit import fit
from aib.training.loop import Loop
from aib.training.progress import Reporter

PLAIN_BATCH = 128
WARM_UP = 3  # batches: compiling, choosing algorithms, starting workers
CALLS = 3  # of a variant before the next one is called

Rates = dict[str, Any]
Variants = dict[str, Callable[[Tensor], Any]]


def train(
    model: str = "vgg_aib_qt",
    width: float = 1.0,
    image_size: int = 32,
    batch_size: int | None = None,
    steps: int | None = None,
    workers: int = 2,
    device: str | None = None,
) -> Rates:
    """Images/s of `aib train` and of a plain eager loop, and the share of the matrix rate."""
    target = pick_device(device)
    gpu = target.type == "cuda"
    batch_size = batch_size or (512 if gpu else 64)
    settings = fast_settings(target, batch_size, epochs=4)
    data = random_images(batch_size * (steps or (100 if gpu else 5)), image_size)
    epochs = EpochRates()
    fit(make_model(model, width, image_size), data, settings, report=epochs)
    ours = max(epochs.rates[1:])  # the first epoch compiles; the fastest is the least disturbed
    plain = plain_training_rate(make_model(model, width, image_size).to(target), workers)
    flops = 3 * forward_flops(model, width, image_size)  # a backward pass costs two forward
    ceiling = matmul_rate(target, DTYPES[settings.precision])
    return {
        "what": "train",
        "model": model,
        "width": width,
        "image_size": image_size,
        "batch_size": batch_size,
        "precision": settings.precision,
        "images_per_second": ours,
        "plain_images_per_second": plain,
        "ratio": ours / plain,
        "tflops": ours * flops / 1e12,
        "matmul_tflops": ceiling / 1e12,
        "share_of_matmul": ours * flops / ceiling,
    }


def data(
    data: str = "shapes",
    root: str | None = None,
    model: str = "vgg_aib_masked",
    width: float = 1.0,
    batch_size: int = 64,
    workers: int = 2,
    seconds: float = 5.0,
    device: str | None = None,
) -> Rates:
    """Images/s of training steps with the loader, and on batches that stay on the device."""
    target = pick_device(device)
    images = load(data, "train", root=root, holdout=0)
    settings = fast_settings(target, batch_size, epochs=1, workers=workers)
    size = family(model, images.preprocessing.image_size)
    network = create_model(model, images.num_classes, size, width=width)
    loop = Loop(network, images, settings)
    loop.take_step.objective.train()

    def step(x: Tensor, y: Tensor) -> None:
        loop.take_step(iter([(x, y)]), 0)

    epochs = loop.batches.epoch
    resident = [next(iter(epochs(i))) for i in range(2)]
    on_device = images_per_second(repeat(resident), seconds, target, step)
    together = images_per_second(map(epochs, count()), seconds, target, step)
    loader = images_per_second(map(epochs, count()), seconds, target, lambda x, y: None)
    return {
        "what": "data",
        "data": images.name,
        "image_size": images.preprocessing.image_size,
        "model": model,
        "batch_size": batch_size,
        "workers": workers,
        "images_per_second": together,
        "on_device_images_per_second": on_device,
        "ratio": together / on_device,
        "loader_images_per_second": loader,
    }


def latency(
    model: str = "vgg_aib_qt",
    width: float = 1.0,
    image_size: int = 32,
    seconds: float = 3.0,
    compile: bool = True,
) -> Rates:
    """Milliseconds of one deterministic pass on the CPU: eager, compiled and ONNX, in turns."""
    variants = make_variants(make_model(model, width, image_size), compile)
    rows = []
    for batch in (1, 32):
        pixels = torch.rand(batch, 3, image_size, image_size)
        rows += summarise(time_in_turns(variants, pixels, seconds), batch)
    return {"what": "latency", "model": model, "width": width, "rows": rows}


def make_model(name: str, width: float, image_size: int) -> Classifier:
    return create_model(name, 10, family(name, image_size), width=width)


def fast_settings(device: torch.device, batch_size: int, **more: Any) -> Settings:
    """Settings with everything on for a GPU; on a CPU compiling takes longer than it saves."""
    gpu = device.type == "cuda"
    return Settings(
        batch_size=batch_size,
        clip=2.0,
        precision="bf16" if gpu else "fp32",
        channels_last=gpu,
        compile=gpu,
        graphs=gpu,
        accelerator="cuda" if gpu else "cpu",
        **more,
    )


def random_images(count: int, size: int) -> ImageSet:
    """Random pixels and labels: speed does not depend on the content."""
    images = torch.randint(256, (count, 3, size, size), dtype=torch.uint8)
    return ImageSet.from_tensors(images, torch.arange(count) % 10, name="noise")


class OneByOne(Dataset):
    """The usual Dataset: pads, crops, mirrors and normalises each image on its own."""

    def __init__(self, dataset: ImageSet) -> None:
        assert dataset.images is not None
        self.images, self.labels = dataset.images, dataset.labels
        self.statistics = dataset.preprocessing.statistics()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = self.images[index].numpy()  # numpy pads one small image faster than torch does
        padded = torch.from_numpy(np.pad(image, ((0, 0), (4, 4), (4, 4)), mode="reflect"))
        top, left = torch.randint(9, (2,)).tolist()
        pixels = padded[:, top : top + image.shape[1], left : left + image.shape[2]]
        if torch.rand(()) < 0.5:
            pixels = pixels.flip(2)
        return normalise(pixels, *self.statistics), self.labels[index]


class EpochRates(Reporter):
    """Collects images per second of each epoch."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def metrics(self, row: dict[str, Any]) -> None:
        if "images_per_second" in row:
            self.rates.append(row["images_per_second"])


def plain_training_rate(model: Classifier, workers: int) -> float:
    """Images/s of a tutorial's training loop: a DataLoader of single images, fp32, eager."""
    device = next(model.parameters()).device
    dataset = OneByOne(random_images(4 * PLAIN_BATCH, model.preprocessing.image_size))
    # Long epochs of few different images: workers that start again would be measured instead.
    sampler = RandomSampler(dataset, replacement=True, num_samples=64 * PLAIN_BATCH)
    options: Any = {"num_workers": workers, "persistent_workers": workers > 0}
    loader = DataLoader(dataset, PLAIN_BATCH, sampler=sampler, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    model.train()

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        aib_loss(model(x), y).total.backward()
        optimizer.step()

    return images_per_second(repeat(loader), 5.0, device, step)


def images_per_second(
    epochs: Iterable[Iterable[tuple[Tensor, Tensor]]],
    seconds: float,
    device: torch.device,
    step: Callable[[Tensor, Tensor], None],
) -> float:
    """Images per second of `step(x, y)`, for about `seconds` after a warm-up."""
    synchronise = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    images, begin = 0, 0.0
    for number, (x, y) in enumerate(chain.from_iterable(epochs)):
        step(x.to(device, non_blocking=True), y.to(device, non_blocking=True))
        if number < WARM_UP:
            synchronise()
            begin = time.perf_counter()
            continue
        images += len(x)
        if time.perf_counter() - begin > seconds:
            break
    synchronise()
    return images / (time.perf_counter() - begin)


def forward_flops(model: str, width: float, image_size: int) -> int:
    """Floating-point operations of a forward pass of one image with one sample."""
    with torch.device("meta"):
        network = make_model(model, width, image_size).eval()
        x = torch.empty(1, 3, image_size, image_size)
    with FlopCounterMode(display=False) as counter:
        network(x, (1, 1))
    return counter.get_total_flops()


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of one large matrix product: the ceiling on this machine."""
    n = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    return 2 * n**3 / timer.blocked_autorange(min_run_time=1.0).median


def make_variants(model: Classifier, compile: bool) -> Variants:
    model = deepcopy(model).cpu().float().eval()
    variants: Variants = {"eager": OnePass(model).eval()}
    if compile:
        variants["compiled"] = torch.compile(OnePass(deepcopy(model)).eval())
    about = describe(model)
    variants["onnx"] = open_onnx(to_onnx(OnePass(traceable(model)).eval(), about))
    return variants


@torch.inference_mode()
def time_in_turns(variants: Variants, pixels: Tensor, seconds: float) -> dict[str, list[float]]:
    """Seconds of every call per variant; they take turns, so that a disturbance affects all."""
    for call in variants.values():
        call(pixels)  # compiles, allocates
    times: dict[str, list[float]] = {name: [] for name in variants}
    end = time.perf_counter() + seconds * len(times)
    while time.perf_counter() < end or not times["eager"]:
        for name, taken in times.items():
            variants[name](pixels)  # not counted: brings its weights back into the cache
            for _ in range(CALLS):
                began = time.perf_counter()
                variants[name](pixels)
                taken.append(time.perf_counter() - began)
    return times


def summarise(times: dict[str, list[float]], batch: int) -> list[Rates]:
    """Median in milliseconds, and the ratio of eager's median to it."""
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return [
        {"batch": batch, "way": name, "median_ms": 1e3 * one, "ratio": medians["eager"] / one}
        for name, one in medians.items()
    ]


def main() -> None:
    commands: Any = {"train": train, "data": data, "latency": latency}
    result: Rates = tyro.extras.subcommand_cli_from_dict(commands, prog="python -m tools.bench")
    print(json.dumps(result | {"environment": environment()}, indent=2))


if __name__ == "__main__":
    main()
