"""`aib bench`: speed on this machine."""

import json as jsonlib
import math
from dataclasses import replace
from typing import Any

import torch
import tyro

from aib.bench.data import bench_data
from aib.bench.latency import BATCHES, bench_latency
from aib.bench.throughput import SpeedOptions, bench_infer, bench_train, make_model
from aib.commands.bar import progress
from aib.commands.options import parse_samples
from aib.data.load import load
from aib.environment import pick_device
from aib.errors import AibError
from aib.settings import Precision


def train(
    model: str = "vgg_aib_qt",
    width: float = 1.0,
    image_size: int = 32,
    batch_size: int | None = None,
    precision: Precision | None = None,
    compile: bool | None = None,
    graphs: bool | None = None,
    steps: int | None = None,
    workers: int = 2,
    device: str | None = None,
    json: bool = False,
) -> None:
    """Training with augmentation: a plain PyTorch loop against ours, in one run.

    Example: aib bench train --model tiny_aib_qt

    Args:
        model: model name.
        width: scales the model's channels.
        image_size: size of the random images.
        batch_size: our batch size (default: 512 on a GPU, 64 on a CPU); the plain loop uses 128.
        precision: our precision (default: bf16 on a GPU, fp32 on a CPU).
        compile: use torch.compile (default: on a GPU).
        graphs: capture the step as a CUDA graph (default: on a GPU, except with fp16).
        steps: steps per epoch; four epochs are run.
        workers: workers of the plain loop's DataLoader.
        device: cpu or cuda (default: cuda if available).
        json: print JSON.
    """
    target = pick_device(device)
    if steps is not None and steps < 1:
        raise AibError(f"steps must be at least 1, not {steps}")
    steps = steps or (100 if target.type == "cuda" else 5)
    options = speed_options(target, batch_size, precision, compile, graphs)
    result = bench_train(
        model, target, options, steps=steps, workers=workers, image_size=image_size, width=width
    )
    print_result(result, json)


def infer(
    model: str = "vgg_aib_qt",
    samples: str = "4x12",
    width: float = 1.0,
    image_size: int = 32,
    batch_size: int | None = None,
    precision: Precision | None = None,
    compile: bool | None = None,
    seconds: float = 3.0,
    latency: bool = True,
    device: str | None = None,
    json: bool = False,
) -> None:
    """Evaluation with S x M samples: fp32 and eager against ours, in one run. On a CPU also the
    latency of one deterministic pass: eager, compiled, ONNX.

    Example: aib bench infer --model tiny_aib_qt --samples 4x12

    Args:
        model: model name.
        samples: attention x latent samples.
        width: scales the model's channels.
        image_size: size of the random images.
        batch_size: our batch size (default: 512 on a GPU, 64 on a CPU); on a GPU the plain one is
            128.
        precision: our precision (default: bf16 on a GPU, fp32 on a CPU).
        compile: use torch.compile (default: on a GPU); False also leaves it out of the latency.
        seconds: duration of each measurement.
        latency: on a CPU, also measure the latency of a single image and of a small batch.
        device: cpu or cuda (default: cuda if available).
        json: print JSON.
    """
    target = pick_device(device)
    check_seconds(seconds)
    result = bench_infer(
        model,
        target,
        speed_options(target, batch_size, precision, compile),
        samples=parse_samples(samples),
        seconds=seconds,
        image_size=image_size,
        width=width,
    )
    if latency and target.type == "cpu":
        with progress(1 + len(BATCHES)) as tick:
            result["latency"] = bench_latency(
                make_model(model, image_size, width),
                seconds=seconds,
                compile=compile is not False,  # None does not switch it off
                tick=tick,
            )
    print_result(result, json)


def data(
    data: str = "shapes",
    root: str | None = None,
    batch_size: int = 256,
    workers: int = 2,
    seconds: float = 5.0,
    device: str | None = None,
    json: bool = False,
) -> None:
    """Batches of augmented images: ours on the device against a plain torch DataLoader.

    Example: aib bench data --data cifar10 --root downloads

    Args:
        data: data set of small images.
        root: folder of its official files.
        batch_size: images per batch, for both.
        workers: workers of the DataLoader.
        seconds: duration of each measurement.
        device: cpu or cuda (default: cuda if available).
        json: print JSON.
    """
    check_seconds(seconds)
    images = load(data, "train", root=root, holdout=0)
    target = str(pick_device(device))
    result = bench_data(
        images, batch_size=batch_size, workers=workers, seconds=seconds, device=target
    )
    print_result(result, json)


def check_seconds(seconds: float) -> None:
    """Check the duration of a measurement."""
    if not 0 < seconds < math.inf:
        raise AibError(f"seconds must be above 0 and finite, not {seconds:g}")


def speed_options(
    device: torch.device,
    batch_size: int | None,
    precision: Precision | None,
    compile: bool | None,
    graphs: bool | None = None,
) -> SpeedOptions:
    """The device's defaults, with the values that are given."""
    if batch_size is not None and batch_size < 1:
        raise AibError(f"batch_size must be at least 1, not {batch_size}")
    if precision == "fp16" and graphs is None:
        graphs = False  # its loss scale cannot be captured
    given = {
        "batch_size": batch_size, "precision": precision, "compile": compile, "graphs": graphs
    }  # fmt: skip
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    return replace(SpeedOptions.for_device(device), **changes)


def print_result(result: dict[str, Any], as_json: bool) -> None:
    """Print JSON, or one line per value."""
    if as_json:
        print(jsonlib.dumps(result, indent=2))
        return
    latency = result.pop("latency", None)
    environment = result.pop("environment", {})
    for key, value in (result | environment).items():
        text = f"{value:,.3g}" if isinstance(value, float) and value < 100 else value
        print(f"{key.replace('_', ' '):<28} {text}")
    if latency is not None:
        print_latency(latency)


def print_latency(latency: dict[str, Any]) -> None:
    """Print one line per variant and batch size."""
    print(f"one deterministic pass, threads: {latency['threads']}")
    print(f"{'batch':>7}  {'':<20} {'median':>12} {'90%':>12}  eager / this")
    for row in latency["rows"]:
        print(
            f"{row['batch']:>7}  {row['way']:<20} {row['median_ms']:>9.2f} ms "
            f"{row['p90_ms']:>9.2f} ms  {row['ratio']:.2f}"
        )
    for note in latency["notes"]:
        print(note)


def main(argv: list[str]) -> None:
    """Run the command."""
    tyro.extras.subcommand_cli_from_dict(
        {"train": train, "infer": infer, "data": data},
        args=argv,
        prog="aib bench",
        description="Speed on this machine, relative to a baseline in the same run.",
        config=(tyro.conf.FlagCreatePairsOff,),
    )
