"""Throughput in one run: a plain PyTorch baseline, ours, and a matrix product as the ceiling."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import torch
from torch import Tensor
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader, RandomSampler
from torch.utils.flop_counter import FlopCounterMode

from aib.bench.data import OneByOne, images_per_second
from aib.config.options import Propose
from aib.config.settings import Settings
from aib.config.validation import Count, Precision, check
from aib.data import Batches, ImageSet
from aib.models.classifier import Classifier
from aib.models.loss import aib_loss
from aib.models.modes import DTYPES, autocast
from aib.models.registry import create_model
from aib.system.environment import environment
from aib.training.fit import fit
from aib.training.progress import Reporter

PLAIN_BATCH = 128


@dataclass(frozen=True)
class Workload:
    """A model, the size of its images, and how it is run."""

    model: str
    width: float
    image_size: int
    device: torch.device
    batch_size: int
    precision: Precision
    channels_last: bool
    compile: bool
    graphs: bool = False  # capture the training step as a CUDA graph
    propose: Propose | None = None  # where a masked model's map comes from

    def make_model(self) -> Classifier:
        """A model of 10 classes, of the family that suits the image size."""
        family = 224 if self.image_size >= 112 else 32
        model = create_model(self.model, 10, family, width=self.width, propose=self.propose)
        model.preprocessing = replace(model.preprocessing, image_size=self.image_size)
        return model

    def without_weights(self) -> Classifier:
        """The same on the meta device: shapes only."""
        with torch.device("meta"):
            return self.make_model().eval()

    def forward_flops(self, samples: tuple[int, int]) -> int:
        """Floating-point operations of a forward pass of one image."""
        model = self.without_weights()
        x = torch.empty(1, 3, self.image_size, self.image_size, device="meta")
        with FlopCounterMode(display=False) as counter:
            model(x, samples)
        return counter.get_total_flops()


def bench_train(
    work: Workload, *, steps: int, workers: int = 2, against: str | None = None
) -> dict[str, Any]:
    """Images/s of training with augmentation: a plain PyTorch loop against `aib train`'s.

    `against` names another model, which is then trained in the same way.
    """
    rival = None if against is None else replace(work, model=against, propose=None)
    if rival is not None:
        rival.without_weights()  # a wrong name is an error before anything is measured
    began = time.perf_counter()
    ours, first_epoch, memory = training_rate(work, steps)
    plain = plain_training_rate(work, workers)
    operations = 3 * work.forward_flops((1, 1))  # a backward pass costs two forward
    result = {
        "what": "train",
        **_compare(work, ours, plain, operations),
        "propose": work.propose,
        "graphs": work.graphs,
        "first_epoch_seconds": round(first_epoch, 1),
        "peak_memory_gib": memory,
        "plain": f"fp32, eager, batch {PLAIN_BATCH}, DataLoader with {workers} workers",
    }
    if rival is not None:
        other, _, other_memory = training_rate(rival, steps)
        result |= {
            "against": against,
            "against_images_per_second": round(other, 1),
            "against_ratio": round(ours / other, 3),
            "against_peak_memory_gib": other_memory,
        }
    return result | {"seconds": round(time.perf_counter() - began, 1)}


def training_rate(work: Workload, steps: int) -> tuple[float, float, float | None]:
    """Train for one epoch that compiles and warms up, and for three more.

    Returns images/s, seconds of the first epoch, and GiB of GPU memory.
    """
    data = random_images(work.batch_size * steps, work.image_size)
    settings = Settings(
        epochs=4,
        batch_size=work.batch_size,
        clip=2.0,
        precision=work.precision,
        channels_last=work.channels_last,
        compile=work.compile,
        graphs=work.graphs,
        accelerator="cuda" if work.device.type == "cuda" else "cpu",
        log_every=steps,
    )
    epochs = _Recorder()
    _, memory = with_peak_memory(
        work.device, lambda: fit(work.make_model(), data, settings, report=epochs)
    )
    # The fastest epoch after the first is the least disturbed.
    fastest = max(row["images_per_second"] for row in epochs.rows[1:])
    return fastest, epochs.rows[0]["seconds"], memory


def bench_infer(
    work: Workload, *, samples: tuple[int, int] = (4, 12), seconds: float = 3.0
) -> dict[str, Any]:
    """Images/s of evaluation: fp32 and eager against ours, both with the same samples."""
    ours, memory = with_peak_memory(work.device, lambda: infer_rate(work, samples, seconds))
    # A CPU is no faster with larger batches, and would need minutes for them.
    batch_size = PLAIN_BATCH if work.device.type == "cuda" else work.batch_size
    eager = replace(
        work, batch_size=batch_size, precision="fp32", channels_last=False, compile=False
    )
    plain = infer_rate(eager, samples, seconds, workers=2)
    return {
        "what": "infer",
        **_compare(work, ours, plain, work.forward_flops(samples)),
        "samples": work.without_weights().describe_samples(samples, deterministic=False),
        "peak_memory_gib": memory,
        "plain": f"fp32, eager, batch {batch_size}, DataLoader with 2 workers",
    }


@torch.no_grad()
def infer_rate(work: Workload, samples: tuple[int, int], seconds: float, workers: int = 0) -> float:
    """Images/s of forward passes, from `Batches` or, with `workers`, from a DataLoader."""
    device = work.device
    layout = torch.channels_last if work.channels_last else torch.contiguous_format
    model = work.make_model().eval().to(device, memory_format=layout)  # type: ignore[call-overload]
    count = (4 if device.type == "cuda" else 1) * work.batch_size
    data = random_images(count, work.image_size)
    batches = Batches(data, work.batch_size, train=False, device=device)
    loader = DataLoader(
        OneByOne(data, 0, False),
        work.batch_size,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    forward = torch.compile(model) if work.compile else model

    def epoch() -> None:
        for x, _ in loader if workers else batches.epoch(0):
            x = x.to(device).contiguous(memory_format=layout)
            with autocast(device, work.precision):
                forward(x, samples).logits  # noqa: B018

    return count * calls_per_second(epoch, seconds)


def plain_training_rate(work: Workload, workers: int) -> float:
    """Images/s of a tutorial's training loop: a DataLoader of single images, fp32, eager."""
    model = work.make_model().to(work.device).train()
    dataset = OneByOne(random_images(4 * PLAIN_BATCH, work.image_size), 4, True)
    # An epoch as long as that of a small data set, of few different images: workers that start
    # again after a few batches would be measured instead of the loop.
    sampler = RandomSampler(dataset, replacement=True, num_samples=64 * PLAIN_BATCH)
    loader = DataLoader(
        dataset,
        PLAIN_BATCH,
        sampler=sampler,
        num_workers=workers,
        persistent_workers=workers > 0,
        drop_last=True,
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        aib_loss(model(x), y).total.backward()
        optimizer.step()

    return images_per_second(repeat(loader), 5.0, work.device, step)


def matmul_rate(device: torch.device, precision: Precision) -> float:
    """FLOP/s of one large matrix product: the ceiling on this machine."""
    n = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device, dtype=DTYPES[precision]) for _ in range(2))
    return 2 * n**3 * calls_per_second(lambda: torch.mm(a, b), 1.0)


def calls_per_second(call: Callable[[], Any], seconds: float) -> float:
    """Calls per second, measured for about `seconds` after a warm-up."""
    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    call()  # compiles, allocates
    return 1 / timer.blocked_autorange(min_run_time=seconds).median


def with_peak_memory(device: torch.device, call: Callable[[], Any]) -> tuple[Any, float | None]:
    """The result of a call and the peak GPU memory in GiB; None on a CPU."""
    if device.type != "cuda":
        return call(), None
    torch.cuda.reset_peak_memory_stats()
    return call(), torch.cuda.max_memory_allocated() / 2**30


def random_images(count: int, size: int) -> ImageSet:
    """Random pixels and labels: speed does not depend on the content."""
    check("image_size", size, Count)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, size, size), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (count,), generator=generator)
    names = [str(i) for i in range(10)]
    return ImageSet.from_tensors(images, labels, class_names=names, name="noise")


class _Recorder(Reporter):
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def metrics(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def _compare(work: Workload, ours: float, plain: float, operations: int) -> dict[str, Any]:
    """Rates in images/s and their ratio; `operations` are the FLOPs per image."""
    ceiling = matmul_rate(work.device, work.precision)
    return {
        "model": work.model,
        "image_size": work.image_size,
        "width": work.width,
        "images_per_second": round(ours, 1),
        "plain_images_per_second": round(plain, 1),
        "ratio": round(ours / plain, 2),
        "batch_size": work.batch_size,
        "precision": work.precision,
        "channels_last": work.channels_last,
        "compile": work.compile,
        "tflops": ours * operations / 1e12,
        "matmul_tflops": ceiling / 1e12,
        "share_of_matmul": ours * operations / ceiling,
        "environment": environment(),
    }
