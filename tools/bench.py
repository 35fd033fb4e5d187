"""Speed of this machine, each rate as a ratio within the same run. Prints JSON.

    python -m tools.bench train --model vgg_aib_qt        # a training step, a plain loop, a matrix
    python -m tools.bench data --data folder:photos       # training steps with and without loading
    python -m tools.bench latency --model tiny_aib_qt     # one pass: eager, compiled, ONNX

Absolute rates differ between machines and days; the ratios compare measurements a minute apart.
"""

import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, count, repeat
from typing import Any

import numpy as np
import torch
import tyro
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader, RandomSampler

from aib.config.settings import Settings
from aib.data import ImageSet, load
from aib.data.preprocessing import normalise
from aib.export.one_pass import OnePass, describe, traceable
from aib.export.onnx_file import open_onnx, to_onnx
from aib.interpret.posthoc import gradcam_layer, gradcam_maps
from aib.models.classifier import Classifier
from aib.models.counts import measure
from aib.models.fold import fold_batch_norm
from aib.models.loss import aib_loss
from aib.models.modes import DTYPES
from aib.models.networks.by_name import build_network
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
    plain: str | None = None,
    twin: str | None = None,
) -> Rates:
    """Images/s of `aib train` and of a plain eager loop, and the share of the matrix rate.

    Args:
        plain: network of the plain loop, such as timm:resnet50; by default the model itself.
        twin: another model to train as this one, such as its form without a mask.
    """
    target = pick_device(device)
    gpu = target.type == "cuda"
    settings = fast_settings(target, batch_size or (512 if gpu else 64), epochs=4)
    count = settings.batch_size * (steps or (100 if gpu else 5))
    own = make_model(model, width, image_size)
    network = build_network(plain, num_classes=10) if plain else own

    def our_rate(name: str) -> float:
        epochs, images = EpochRates(), random_images(count, image_size)
        fit(make_model(name, width, image_size), images, settings, report=epochs)
        return max(epochs.rates[1:])  # the first compiles; the fastest is the least disturbed

    ours = our_rate(model)
    theirs = plain_training_rate(network.to(target), image_size, workers)
    done = ours * 6 * measure(model, 10, family(model, image_size), width).multiply_adds
    ceiling = matmul_rate(target, DTYPES[settings.precision])
    found: Rates = {"what": "train", "model": model, "width": width, "image_size": image_size}
    found |= {"batch_size": settings.batch_size, "precision": settings.precision}
    found |= {"images_per_second": ours, "plain_images_per_second": theirs, "ratio": ours / theirs}
    found |= {"tflops": done / 1e12, "matmul_tflops": ceiling / 1e12}
    found |= {"share_of_matmul": done / ceiling, "plain": plain, "twin": twin}
    if twin:
        found["twin_ratio"] = ours / our_rate(twin)
    return found


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
    found: Rates = {"what": "data", "data": images.name, "model": model, "batch_size": batch_size}
    found |= {"image_size": images.preprocessing.image_size, "workers": workers}
    found |= {"images_per_second": together, "on_device_images_per_second": on_device}
    return found | {"ratio": together / on_device, "loader_images_per_second": loader}


def latency(
    model: str = "vgg_aib_qt",
    width: float = 1.0,
    image_size: int = 32,
    seconds: float = 3.0,
    compile: bool = True,
    others: tuple[str, ...] = (),
    gradcam: str | None = None,
) -> Rates:
    """Milliseconds of one deterministic pass on the CPU: eager, compiled and ONNX, in turns.

    Args:
        others: models whose `explain` is compared with this one's, for one image.
        gradcam: a model that Grad-CAM explains, beside them.
    """
    variants = make_variants(make_model(model, width, image_size), compile)
    rows: list[Rates] = []
    for batch in (1, 32):
        pixels = torch.rand(batch, 3, image_size, image_size)
        rows += summarise(time_in_turns(variants, pixels, seconds), batch)
    if others or gradcam:
        compared = make_explainers((model, *others), gradcam, width, image_size)
        rows += summarise(time_in_turns(compared, pixels[:1], seconds), 1)
    found: Rates = {"what": "latency", "model": model, "width": width, "image_size": image_size}
    return found | {"latency": {"threads": torch.get_num_threads(), "rows": rows}}


def make_model(name: str, width: float, image_size: int) -> Classifier:
    return create_model(name, 10, family(name, image_size), width=width)


def fast_settings(device: torch.device, batch_size: int, **more: Any) -> Settings:
    """Settings with everything on for a GPU; on a CPU compiling takes longer than it saves."""
    if device.type != "cuda":
        return Settings(batch_size=batch_size, clip=2.0, accelerator="cpu", **more)
    on: Rates = {"precision": "bf16", "channels_last": True, "compile": True, "graphs": True}
    return Settings(batch_size=batch_size, clip=2.0, accelerator="cuda", **on, **more)


def random_images(count: int, size: int) -> ImageSet:
    """Random pixels and labels: speed does not depend on the content."""
    images = torch.randint(256, (count, 3, size, size), dtype=torch.uint8)
    return ImageSet.from_tensors(images, torch.arange(count) % 10, name="noise")


def collate(statistics: tuple[Tensor, Tensor], items: list[tuple[Tensor, int]]) -> list[Tensor]:
    """A batch as the usual Dataset makes it: pads, crops, mirrors and normalises each image."""
    batch = []
    for image, _ in items:  # numpy pads one small image faster than torch does
        padded = np.pad(image.numpy(), ((0, 0), (4, 4), (4, 4)), mode="reflect")
        top, left = torch.randint(9, (2,)).tolist()
        crop = torch.from_numpy(padded)[:, top : top + image.shape[1], left : left + image.shape[2]]
        batch.append(normalise(crop.flip(2) if torch.rand(()) < 0.5 else crop, *statistics))
    return [torch.stack(batch), torch.tensor([label for _, label in items])]


class EpochRates(Reporter):
    """Collects images per second of each epoch."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def metrics(self, row: dict[str, Any]) -> None:
        if "images_per_second" in row:
            self.rates.append(row["images_per_second"])


def plain_training_rate(model: nn.Module, image_size: int, workers: int) -> float:
    """Images/s of a tutorial's training loop: a DataLoader of single images, fp32, eager."""
    dataset = random_images(4 * PLAIN_BATCH, image_size)
    # Long epochs of few different images: workers that start again would be measured instead.
    sampler = RandomSampler(dataset, replacement=True, num_samples=64 * PLAIN_BATCH)
    options: Any = {"num_workers": workers, "persistent_workers": workers > 0}
    options["collate_fn"] = partial(collate, dataset.preprocessing.statistics())
    loader = DataLoader(dataset, PLAIN_BATCH, sampler=sampler, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    model.train()

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        out = model(x)
        loss = aib_loss(out, y).total if isinstance(model, Classifier) else cross_entropy(out, y)
        loss.backward()
        optimizer.step()

    return images_per_second(repeat(loader), 5.0, next(model.parameters()).device, step)


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
        images += len(x)
        if number < WARM_UP:
            synchronise()
            images, begin = 0, time.perf_counter()
        elif time.perf_counter() - begin > seconds:
            break
    synchronise()
    return images / (time.perf_counter() - begin)


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of one large matrix product: the ceiling on this machine."""
    n = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    return 2 * n**3 / timer.blocked_autorange(min_run_time=1.0).median


def make_variants(model: Classifier, compile: bool) -> Variants:
    variants: Variants = {"eager": OnePass(model.eval()).eval()}
    if compile:
        variants["compiled"] = torch.compile(OnePass(model).eval())
    one_pass = OnePass(traceable(model)).eval()
    return variants | {"onnx": open_onnx(to_onnx(one_pass, describe(model)))}


def make_explainers(names: tuple[str, ...], gradcam: str | None, *form: Any) -> Variants:
    """`explain` of models and Grad-CAM of another, as `aib explain` runs them: BatchNorm folded."""
    variants: Variants = {}
    for name in (*names, gradcam) if gradcam else names:
        model = make_model(name, *form).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        fold_batch_norm(model)
        if name == gradcam:
            layer = gradcam_layer(model, torch.zeros(1, 3, form[1], form[1]))
            variants[f"Grad-CAM {name}"] = partial(gradcam_maps, model, layer=layer)
        else:
            variants[f"explain {name}, {model.eval_samples[0]} samples"] = model.explain
            variants[f"explain {name}, one pass"] = partial(model.explain, deterministic=True)
    return variants


@torch.inference_mode()
def time_in_turns(variants: Variants, pixels: Tensor, seconds: float) -> dict[str, list[float]]:
    """Seconds of every call per variant; they take turns, so that a disturbance affects all."""
    for call in variants.values():
        call(pixels)  # compiles, allocates
    times: dict[str, list[float]] = {name: [] for name in variants}
    end = time.perf_counter() + seconds * len(times)
    while time.perf_counter() < end or not all(times.values()):
        for name, taken in times.items():
            variants[name](pixels)  # not counted: brings its weights back into the cache
            for _ in range(CALLS):
                began = time.perf_counter()
                variants[name](pixels)
                taken.append(time.perf_counter() - began)
    return times


def summarise(times: dict[str, list[float]], batch: int) -> list[Rates]:
    """Median and 90th percentile in milliseconds; the first median relative to each."""
    rows: list[Rates] = []
    for name, taken in times.items():
        median, p90 = np.quantile(taken, (0.5, 0.9)).tolist()
        row = {"batch": batch, "way": name, "median_ms": 1e3 * median, "p90_ms": 1e3 * p90}
        ratio = (rows[0]["median_ms"] if rows else row["median_ms"]) / row["median_ms"]
        rows.append(row | {"ratio": ratio, "calls": len(taken)})
    return rows


def main() -> None:
    commands: Any = {"train": train, "data": data, "latency": latency}
    result: Rates = tyro.extras.subcommand_cli_from_dict(commands, prog="python -m tools.bench")
    print(json.dumps(result | {"environment": environment()}, indent=2))


if __name__ == "__main__":
    main()
