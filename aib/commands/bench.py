"""`aib bench`: speed on this machine."""

import json as jsonlib
import math
from dataclasses import replace
from typing import Any

import torch
import tyro

from aib.bench.data import bench_data
from aib.bench.latency import BATCHES, bench_latency
from aib.bench.throughput import Fast, bench_infer, bench_train
from aib.commands.bar import progress
from aib.commands.options import parse_samples
from aib.data.load import load
from aib.errors import AibError
from aib.runs import pick_device
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
        width: scales its channels.
        image_size: of the random images.
        batch_size: ours; the plain loop takes 128.
        precision: ours; bf16 on a GPU, fp32 on a CPU if not given.
        compile: ours; on a GPU if not given.
        graphs: ours, as CUDA graphs; on a GPU if not given, except with fp16.
        steps: steps an epoch; four epochs are run.
        workers: of the plain loop's DataLoader.
        device: cpu or cuda.
        json: print JSON.
    """
    where = pick_device(device)
    if steps is not None and steps < 1:
        raise AibError(f"steps must be at least 1, not {steps}")
    steps = steps or (100 if where.type == "cuda" else 5)
    how = pick(where, batch_size, precision, compile, graphs)
    show(
        bench_train(
            model, where, how, steps=steps, workers=workers, image_size=image_size, width=width
        ),
        json,
    )


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
        width: scales its channels.
        image_size: of the random images.
        batch_size: ours; on a GPU the plain path takes 128.
        precision: ours.
        compile: ours; False leaves it out of the latency as well.
        seconds: how long each is measured.
        latency: measure the latency of a single image and of a small batch too (on a CPU).
        device: cpu or cuda.
        json: print JSON.
    """
    where = pick_device(device)
    check_seconds(seconds)
    how = pick(where, batch_size, precision, compile)
    result = bench_infer(
        model,
        where,
        how,
        samples=parse_samples(samples),
        seconds=seconds,
        image_size=image_size,
        width=width,
    )
    if latency and where.type == "cpu":
        with progress(1 + len(BATCHES)) as tick:
            compiled = compile is not False  # not asked for is not switched off
            result["latency"] = bench_latency(model, seconds, image_size, width, compiled, tick)
    show(result, json)


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
        batch_size: images a batch, of both.
        workers: of the DataLoader.
        seconds: how long each is measured.
        device: cpu or cuda.
        json: print JSON.
    """
    check_seconds(seconds)
    images = load(data, "train", root=root, holdout=0)
    where = pick_device(device)
    show(
        bench_data(
            images, batch_size=batch_size, workers=workers, seconds=seconds, device=str(where)
        ),
        json,
    )


def check_seconds(seconds: float) -> None:
    """Check the length of a measurement."""
    if not 0 < seconds < math.inf:
        raise AibError(f"seconds must be above 0 and finite, not {seconds:g}")


def pick(
    device: torch.device,
    batch_size: int | None,
    precision: Precision | None,
    compile: bool | None,
    graphs: bool | None = None,
) -> Fast:
    """The device's way, with what the user changed."""
    if batch_size is not None and batch_size < 1:
        raise AibError(f"batch_size must be at least 1, not {batch_size}")
    how = Fast.on(device)
    if precision == "fp16" and graphs is None:
        graphs = False  # its loss scale cannot be recorded
    given = {
        "batch_size": batch_size, "precision": precision, "compile": compile, "graphs": graphs
    }  # fmt: skip
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    return replace(how, **changes)


def show(result: dict[str, Any], as_json: bool) -> None:
    """All figures, one a line, or JSON."""
    if as_json:
        print(jsonlib.dumps(result, indent=2))
        return
    waits = result.pop("latency", None)
    environment = result.pop("environment", {})
    for key, value in (result | environment).items():
        text = f"{value:,.3g}" if isinstance(value, float) and value < 100 else value
        print(f"{key.replace('_', ' '):<28} {text}")
    if waits is not None:
        show_latency(waits)


def show_latency(waits: dict[str, Any]) -> None:
    """One line for each way and batch size."""
    print(f"one deterministic pass, threads: {waits['threads']}")
    print(f"{'batch':>7}  {'':<20} {'median':>12} {'90%':>12}  eager / this")
    for row in waits["rows"]:
        print(
            f"{row['batch']:>7}  {row['way']:<20} {row['median_ms']:>9.2f} ms "
            f"{row['p90_ms']:>9.2f} ms  {row['ratio']:.2f}"
        )
    for note in waits["notes"]:
        print(note)


def main(argv: list[str]) -> None:
    """Entry point of the command table."""
    tyro.extras.subcommand_cli_from_dict(
        {"train": train, "infer": infer, "data": data},
        args=argv,
        prog="aib bench",
        description="Speed on this machine, as ratios inside one run.",
        config=(tyro.conf.FlagCreatePairsOff,),
    )
