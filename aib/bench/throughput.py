"""Throughput in one run: a plain PyTorch baseline, ours, and a matrix product as the ceiling."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

from aib.bench.data import OneByOne
from aib.classifier import Classifier
from aib.data import Batches, ImageSet
from aib.environment import environment
from aib.evaluate import autocast
from aib.loss import aib_loss
from aib.preprocessing import check_image_size
from aib.registry import create_model
from aib.settings import Precision, Settings
from aib.training.loop import fit
from aib.training.progress import Reporter

PLAIN_BATCH = 128


@dataclass(frozen=True)
class SpeedOptions:
    """How a model is run."""

    batch_size: int
    precision: Precision
    channels_last: bool
    compile: bool
    graphs: bool = False  # capture the training step as a CUDA graph

    @classmethod
    def for_device(cls, device: torch.device) -> "SpeedOptions":
        """Everything on for a GPU; on a CPU compiling takes longer than it saves."""
        gpu = device.type == "cuda"
        return cls(512 if gpu else 64, "bf16" if gpu else "fp32", gpu, gpu, gpu)


def bench_train(
    name: str,
    device: torch.device,
    options: SpeedOptions,
    *,
    steps: int,
    workers: int = 2,
    image_size: int = 32,
    width: float = 1.0,
    repeats: int = 3,
) -> dict[str, Any]:
    """Images/s of training with augmentation: a plain PyTorch loop against `aib train`'s."""
    make = partial(make_model, name, image_size, width)
    data = random_images(options.batch_size * steps, image_size)
    settings = Settings(
        epochs=1 + repeats,
        batch_size=options.batch_size,
        clip=2.0,
        precision=options.precision,
        channels_last=options.channels_last,
        compile=options.compile,
        graphs=options.graphs,
        accelerator="cuda" if device.type == "cuda" else "cpu",
        log_every=steps,
    )
    _reset_peak_memory(device)
    epochs = _Recorder()
    began = time.perf_counter()
    fit(make(), data, settings, report=epochs)
    memory = _peak_memory(device)
    # The first epoch compiles and warms up; the fastest of the others is the least disturbed.
    ours = max(row["images_per_second"] for row in epochs.rows[1:])
    enough = data if len(data) >= 4 * PLAIN_BATCH else random_images(4 * PLAIN_BATCH, image_size)
    plain = plain_training_rate(
        make().to(device), enough, device, workers, steps=max(8, min(steps, 40))
    )
    operations = 3 * forward_flops(make, image_size, (1, 1))  # a backward pass costs two forward
    return {
        "what": "train",
        "model": name,
        "image_size": image_size,
        "width": width,
        **_compare(device, options, ours, plain, operations),
        "graphs": options.graphs,
        "first_epoch_seconds": round(epochs.rows[0]["seconds"], 1),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_memory_gib": memory,
        "plain": f"fp32, eager, batch {PLAIN_BATCH}, DataLoader with {workers} workers",
    }


def bench_infer(
    name: str,
    device: torch.device,
    options: SpeedOptions,
    *,
    samples: tuple[int, int] = (4, 12),
    seconds: float = 3.0,
    image_size: int = 32,
    width: float = 1.0,
) -> dict[str, Any]:
    """Images/s of evaluation: fp32 and eager against ours, both with the same samples."""
    make = partial(make_model, name, image_size, width)
    _reset_peak_memory(device)
    ours = infer_rate(make(), device, options, samples, seconds)
    memory = _peak_memory(device)
    # A CPU is no faster with larger batches, and would need minutes for them.
    batch_size = PLAIN_BATCH if device.type == "cuda" else options.batch_size
    eager = SpeedOptions(batch_size, "fp32", channels_last=False, compile=False)
    plain = infer_rate(make(), device, eager, samples, seconds, workers=2)
    operations = forward_flops(make, image_size, samples)
    return {
        "what": "infer",
        "model": name,
        "image_size": image_size,
        "width": width,
        **_compare(device, options, ours, plain, operations),
        "samples": "{}x{}".format(*samples),
        "peak_memory_gib": memory,
        "plain": f"fp32, eager, batch {batch_size}, DataLoader with 2 workers",
    }


@torch.no_grad()
def infer_rate(
    model: Classifier,
    device: torch.device,
    options: SpeedOptions,
    samples: tuple[int, int],
    seconds: float,
    workers: int = 0,
) -> float:
    """Images/s of forward passes, from `Batches` or, with `workers`, from a DataLoader."""
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    model = model.eval().to(device, memory_format=layout)  # type: ignore[call-overload]
    count = (4 if device.type == "cuda" else 1) * options.batch_size
    data = random_images(count, model.preprocessing.image_size)
    batches = Batches(data, options.batch_size, train=False, device=device)
    loader = None
    if workers:
        loader = DataLoader(
            OneByOne(data, 0, False),
            options.batch_size,
            num_workers=workers,
            persistent_workers=True,
        )
    forward = torch.compile(model) if options.compile else model

    def epoch() -> None:
        for x, _ in batches.epoch(0) if loader is None else loader:
            x = x.to(device).contiguous(memory_format=layout)
            with autocast(device, options.precision):
                forward(x, samples).logits  # noqa: B018

    return count * calls_per_second(epoch, seconds)


def plain_training_rate(
    model: Classifier, data: ImageSet, device: torch.device, workers: int, steps: int
) -> float:
    """Images/s of a tutorial's training loop: a DataLoader of single images, fp32, eager."""
    dataset = OneByOne(data, 4, True)
    loader = DataLoader(dataset, PLAIN_BATCH, True, num_workers=workers, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    model.train()
    done, began = 0, time.perf_counter()
    while True:
        for x, y in loader:
            loss = aib_loss(model(x.to(device)), y.to(device)).total
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done == 4:  # workers have started, memory is allocated
                _synchronise(device)
                began = time.perf_counter()
            if done == 4 + steps:
                _synchronise(device)
                return steps * PLAIN_BATCH / (time.perf_counter() - began)


def matmul_rate(device: torch.device, precision: Precision, seconds: float = 1.0) -> float:
    """FLOP/s of one large matrix product: the ceiling on this machine."""
    n = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    return 2 * n**3 * calls_per_second(lambda: torch.mm(a, b), seconds)


def calls_per_second(call: Callable[[], Any], seconds: float) -> float:
    """Calls per second, measured for about `seconds` after a warm-up."""
    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    call()  # compiles, allocates
    return 1 / timer.blocked_autorange(min_run_time=seconds).median


def forward_flops(make: Callable[[], Classifier], image_size: int, samples: tuple[int, int]) -> int:
    """Floating-point operations of a forward pass of one image."""
    with torch.device("meta"):
        model, x = make().eval(), torch.empty(1, 3, image_size, image_size)
    with FlopCounterMode(display=False) as counter:
        model(x, samples)
    return counter.get_total_flops()


def make_model(name: str, image_size: int, width: float) -> Classifier:
    """A model of 10 classes, of the family that suits the image size."""
    model = create_model(name, 10, 224 if image_size >= 112 else 32, width=width)
    model.preprocessing = replace(model.preprocessing, image_size=image_size)
    return model


def random_images(count: int, size: int) -> ImageSet:
    """Random pixels and labels: speed does not depend on the content."""
    check_image_size(size)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, size, size), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (count,), generator=generator)
    names = [str(i) for i in range(10)]
    return ImageSet.from_tensors(images, labels, class_names=names, name="noise")


class _Recorder(Reporter):
    """Collects the rows of metrics."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def metrics(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def _compare(
    device: torch.device, options: SpeedOptions, ours: float, plain: float, operations: int
) -> dict[str, Any]:
    """Rates in images/s and their ratio; `operations` are the FLOPs per image."""
    ceiling = matmul_rate(device, options.precision)
    return {
        "images_per_second": round(ours, 1),
        "plain_images_per_second": round(plain, 1),
        "ratio": round(ours / plain, 2),
        "batch_size": options.batch_size,
        "precision": options.precision,
        "channels_last": options.channels_last,
        "compile": options.compile,
        "tflops": ours * operations / 1e12,
        "matmul_tflops": ceiling / 1e12,
        "share_of_matmul": ours * operations / ceiling,
        "environment": environment(),
    }


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _reset_peak_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def _peak_memory(device: torch.device) -> float | None:
    """Peak GPU memory in GiB; None on a CPU."""
    return torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
