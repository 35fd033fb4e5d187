"""Speed, as ratios inside one run: the plain way, ours, and what a matrix product reaches here."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

from aib.bench.data import OneByOne
from aib.classifier import Classifier
from aib.data import Batches, ImageSet
from aib.evaluate import autocast
from aib.loss import aib_loss
from aib.preprocessing import check_image_size
from aib.registry import create_model
from aib.runs import environment
from aib.settings import Precision, Settings
from aib.training.loop import fit
from aib.training.progress import Silent


@dataclass(frozen=True)
class Fast:
    """How we run a model: what a GPU likes, or what a CPU does."""

    batch_size: int
    precision: Precision
    channels_last: bool
    compile: bool
    graphs: bool = False  # replay the training step

    @classmethod
    def on(cls, device: torch.device) -> "Fast":
        """All of it on a GPU; a CPU gains too little to wait for a compiler."""
        gpu = device.type == "cuda"
        return cls(512 if gpu else 64, "bf16" if gpu else "fp32", gpu, gpu, gpu)


def bench_train(
    name: str,
    device: torch.device,
    how: Fast,
    *,
    steps: int,
    workers: int = 2,
    image_size: int = 32,
    width: float = 1.0,
    repeats: int = 3,
) -> dict[str, Any]:
    """Images/s of training with augmentation: a plain PyTorch loop against `aib train`'s."""
    data = noise_images(how.batch_size * steps, image_size)
    make = lambda: create_model(name, 10, family(image_size), width=width)  # noqa: E731
    settings = Settings(
        epochs=1 + repeats,
        batch_size=how.batch_size,
        clip=2.0,
        precision=how.precision,
        channels_last=how.channels_last,
        compile=how.compile,
        graphs=how.graphs,
        accelerator="cuda" if device.type == "cuda" else "cpu",
        log_every=steps,
    )
    _reset_peak(device)
    rows = _Rows()
    began = time.perf_counter()
    fit(make(), data, settings, report=rows)
    # The first epoch compiles and warms up; the best of the others is the least disturbed.
    ours = max(row["images_per_second"] for row in rows.rows[1:])
    first = rows.rows[0]["seconds"]
    memory = _peak(device)
    plain_steps = max(8, min(steps, 40))
    enough = data if len(data) >= 512 else noise_images(512, image_size)  # some batches of 128
    plain = _plain_training(make().to(device), enough, device, workers, plain_steps)
    operations = 3 * flops(make, image_size, (1, 1))  # the backward pass costs two forward ones
    return _verdict(device, ours, plain, operations, how) | {
        "what": "train",
        "graphs": how.graphs,
        "model": name,
        "image_size": image_size,
        "width": width,
        "batch_size": how.batch_size,
        "first_epoch_seconds": round(first, 1),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_memory_gib": memory,
        "plain": f"fp32, eager, batch 128, DataLoader with {workers} workers",
    }


def bench_infer(
    name: str,
    device: torch.device,
    how: Fast,
    *,
    samples: tuple[int, int] = (4, 12),
    seconds: float = 3.0,
    image_size: int = 32,
    width: float = 1.0,
) -> dict[str, Any]:
    """Images/s of evaluation: fp32 and eager against ours, both with the same samples."""
    make = lambda: create_model(name, 10, family(image_size), width=width)  # noqa: E731
    _reset_peak(device)
    ours = infer_rate(make(), device, how, samples, image_size, seconds)
    memory = _peak(device)
    # A CPU is no faster with larger batches, and would need minutes for them.
    eager = Fast(128 if device.type == "cuda" else how.batch_size, "fp32", False, False)
    plain = infer_rate(make(), device, eager, samples, image_size, seconds, workers=2)
    return _verdict(device, ours, plain, flops(make, image_size, samples), how) | {
        "what": "infer",
        "model": name,
        "image_size": image_size,
        "width": width,
        "batch_size": how.batch_size,
        "samples": "{}x{}".format(*samples),
        "peak_memory_gib": memory,
        "plain": f"fp32, eager, batch {eager.batch_size}, DataLoader with 2 workers",
    }


@torch.no_grad()
def infer_rate(
    model: Classifier,
    device: torch.device,
    how: Fast,
    samples: tuple[int, int],
    image_size: int,
    seconds: float,
    workers: int | None = None,
) -> float:
    """Images/s of forward passes, from uint8 images on the device or from a DataLoader."""
    layout = torch.channels_last if how.channels_last else torch.contiguous_format
    model = model.eval().to(device, memory_format=layout)  # type: ignore[call-overload]
    count = 4 if device.type == "cuda" else 1
    data = noise_images(count * how.batch_size, image_size)
    batches = Batches(data, how.batch_size, train=False, device=device)
    loader = None
    if workers is not None:
        loader = DataLoader(
            OneByOne(data, 0, False),
            how.batch_size,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
    forward = torch.compile(model) if how.compile else model

    def epoch() -> None:
        for x, _ in batches.epoch(0) if loader is None else loader:
            x = x.to(device).contiguous(memory_format=layout)
            with autocast(device, how.precision):
                forward(x, samples).logits  # noqa: B018

    return len(data) * rate(epoch, device, seconds)


def matmul_rate(device: torch.device, precision: Precision, seconds: float = 1.0) -> float:
    """FLOP/s of one large matrix product: the ceiling that this machine shows."""
    n = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    return 2 * n**3 * rate(lambda: torch.mm(a, b), device, seconds)


def rate(call: Callable[[], Any], device: torch.device, seconds: float) -> float:
    """Calls per second, after some that are not counted."""
    for _ in range(2 if device.type == "cuda" else 1):
        call()
    _finish(device)
    at_once = 3 if device.type == "cuda" else 1  # between two waits for the device
    count, began = 0, time.perf_counter()
    while True:
        for _ in range(at_once):
            call()
        _finish(device)
        count += at_once
        elapsed = time.perf_counter() - began
        if elapsed > seconds:
            return count / elapsed


def flops(make: Callable[[], Classifier], image_size: int, samples: tuple[int, int]) -> int:
    """Floating-point operations of a forward pass of one image."""
    with torch.device("meta"):
        model, x = make().eval(), torch.empty(1, 3, image_size, image_size)
    with FlopCounterMode(display=False) as counter:
        model(x, samples)
    return counter.get_total_flops()


def noise_images(count: int, size: int) -> ImageSet:
    """Random pixels and labels: speed does not depend on what they show."""
    check_image_size(size)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, size, size), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (count,), generator=generator)
    names = [str(i) for i in range(10)]
    return ImageSet.from_tensors(images, labels, class_names=names, name="noise")


class _Rows(Silent):
    """A reporter that only remembers."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def figures(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def _plain_training(
    model: Classifier, data: ImageSet, device: torch.device, workers: int, steps: int
) -> float:
    """The loop of a tutorial: images one by one in a DataLoader, fp32, eager."""
    loader = DataLoader(OneByOne(data, 4, True), 128, True, num_workers=workers, drop_last=True)
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
            if done == 4:  # workers are up, memory is allocated
                _finish(device)
                began = time.perf_counter()
            if done == 4 + steps:
                _finish(device)
                return steps * 128 / (time.perf_counter() - began)


def _verdict(
    device: torch.device, ours: float, plain: float, operations: int, how: Fast
) -> dict[str, Any]:
    ceiling = matmul_rate(device, how.precision)
    return {
        "images_per_second": round(ours, 1),
        "plain_images_per_second": round(plain, 1),
        "ratio": round(ours / plain, 2),
        "precision": how.precision,
        "channels_last": how.channels_last,
        "compile": how.compile,
        "tflops": ours * operations / 1e12,
        "matmul_tflops": ceiling / 1e12,
        "share_of_matmul": ours * operations / ceiling,
        "environment": environment(),
    }


def family(image_size: int) -> int:
    """Which of the two kinds of model suits images of this size."""
    return 224 if image_size >= 112 else 32


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def _peak(device: torch.device) -> float | None:
    """GiB; None on a CPU, where it is not counted."""
    return torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
