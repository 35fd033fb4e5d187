"""Latency on the CPU: how long one caller waits for eager, compiled and ONNX, side by side."""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from aib.bench.throughput import family
from aib.classifier import Classifier
from aib.errors import AibError
from aib.export.formats import need_onnx, open_onnx, quietly, to_onnx
from aib.export.int8 import to_int8
from aib.export.metadata import describe
from aib.export.one_pass import OnePass, settled, traceable
from aib.registry import create_model

BATCHES = (1, 32)
CALLS = 3  # of one way before it is the next one's turn
# Worker threads of PyTorch and of onnxruntime spin for a while after a call; the next way to be
# measured should not share the cores with them.
PAUSE = 0.02
CALIBRATION = 32  # random images: the ranges of int8 do not change its speed

Way = Callable[[Tensor], Any]
Tick = Callable[[str, int], None]


def bench_latency(
    name: str,
    seconds: float,
    image_size: int = 32,
    width: float = 1.0,
    compile: bool = True,
    tick: Tick = lambda what, steps: None,
) -> dict[str, Any]:
    """The latency of a model by name, with fresh weights."""
    model = create_model(name, 10, family(image_size), width=width)
    model.preprocessing = replace(model.preprocessing, image_size=image_size)
    return latency(model, seconds=seconds, compile=compile, tick=tick)


def latency(
    model: Classifier,
    *,
    batches: tuple[int, ...] = BATCHES,
    seconds: float = 3.0,
    compile: bool = True,
    tick: Tick = lambda what, steps: None,
) -> dict[str, Any]:
    """Milliseconds of one deterministic pass, pixels to outputs, for every way and batch size.

    `seconds` is how long a way is measured at a batch size, on average. The ways take turns, so
    that a disturbance meets all of them. `ratio` is eager's median over this one's. `tick` hears
    of the conversion and of each batch size.
    """
    tick("converting", 0)
    ways, notes = make_ways(model, compile)
    rows: list[dict[str, Any]] = []
    for batch in batches:
        tick(f"latency of a batch of {batch}", 1)
        size = model.preprocessing.image_size
        pixels = torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(0))
        times, failed = take_turns(ways, pixels, seconds)
        notes += [note for note in failed if note not in notes]
        rows += summarise(times, batch)
    return {"threads": torch.get_num_threads(), "rows": rows, "notes": notes}


def make_ways(model: Classifier, compile: bool = True) -> tuple[dict[str, Way], list[str]]:
    """Each way by name, and a sentence for each that cannot be had here."""
    notes: list[str] = []
    model = settled(model)
    contiguous = OnePass(model).eval()
    last = OnePass(settled(model)).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    ways: dict[str, Way] = {
        "eager": contiguous,
        "eager channels-last": lambda x: last(x.contiguous(memory_format=torch.channels_last)),
    }
    if compile:
        ways["compiled"] = torch.compile(OnePass(settled(model)).eval())
    try:
        need_onnx()
    except AibError as error:
        return ways, [f"onnx was not measured: {error}"]
    size = model.preprocessing.image_size
    one_pass = OnePass(traceable(model)).eval()
    fp32 = to_onnx(one_pass, size, describe(model, "onnx"))
    noise = torch.randint(256, (CALIBRATION, 3, size, size), dtype=torch.uint8)
    ways["onnx"] = open_onnx(fp32)
    ways["onnx int8"] = open_onnx(to_int8(fp32, noise, {}))
    return ways, notes


@torch.inference_mode()
def take_turns(
    ways: dict[str, Way], pixels: Tensor, seconds: float
) -> tuple[dict[str, list[float]], list[str]]:
    """Seconds of every call by way; a way that fails (no C++ compiler, say) is named and left."""
    times: dict[str, list[float]] = {}
    notes = []
    for name, call in ways.items():
        try:
            with quietly():
                call(pixels)  # compiles, allocates
                call(pixels)
        except Exception as error:  # a compiler may fail with anything
            notes.append(f"{name} was not measured: {_first_line(error)}")
            continue
        times[name] = []
    end = time.perf_counter() + seconds * len(times)
    while time.perf_counter() < end or not times["eager"]:
        for name, taken in times.items():
            time.sleep(PAUSE)
            ways[name](pixels)  # not counted: brings its weights back into the cache
            for _ in range(CALLS):
                began = time.perf_counter()
                ways[name](pixels)
                taken.append(time.perf_counter() - began)
    return times, notes


def summarise(times: dict[str, list[float]], batch: int) -> list[dict[str, Any]]:
    """Median and 90th percentile in milliseconds, and the ratio to eager."""
    eager = statistics.median(times["eager"])
    return [
        {
            "batch": batch,
            "way": name,
            "median_ms": 1e3 * statistics.median(taken),
            "p90_ms": 1e3 * statistics.quantiles(taken, n=10)[-1],
            "ratio": eager / statistics.median(taken),
            "calls": len(taken),
        }
        for name, taken in times.items()
    ]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
