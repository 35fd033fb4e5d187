"""Latency of one call on the CPU: eager, compiled and ONNX, side by side."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aib.errors import AibError, first_line
from aib.export.formats import need_onnx, open_onnx, quietly, to_onnx
from aib.export.int8 import to_int8
from aib.export.one_pass import OnePass, describe, settled, traceable
from aib.models.classifier import Classifier
from aib.system.progress import Tick, silent

BATCHES = (1, 32)
CALLS = 3  # of a variant before the next one is called
# Worker threads of PyTorch and of onnxruntime spin for a while after a call; the next variant
# should not share the cores with them.
PAUSE = 0.02
CALIBRATION = 32  # random images: the ranges of int8 do not change its speed

Variant = Callable[[Tensor], Any]


def bench_latency(
    model: Classifier,
    *,
    seconds: float = 3.0,
    compile: bool = True,
    tick: Tick = silent,
) -> dict[str, Any]:
    """Milliseconds of one deterministic pass, pixels to outputs, per variant and batch size.

    `seconds` is the average time to measure a variant at a batch size. The variants take turns, so
    that a disturbance affects all of them. `ratio` is eager's median over the variant's. `tick` is
    called before the conversion and before each batch size.
    """
    tick("converting", 0)
    variants, notes = make_variants(model, compile)
    size = model.preprocessing.image_size
    rows: list[dict[str, Any]] = []
    for batch in BATCHES:
        tick(f"latency at batch size {batch}", 1)
        pixels = torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(0))
        times, failed = time_in_turns(variants, pixels, seconds)
        notes += [note for note in failed if note not in notes]
        rows += summarise(times, batch)
    return {"threads": torch.get_num_threads(), "rows": rows, "notes": notes}


def make_variants(model: Classifier, compile: bool = True) -> tuple[dict[str, Variant], list[str]]:
    """The variants by name, and a note on those that are not available."""
    model = settled(model)
    last = OnePass(settled(model)).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    variants: dict[str, Variant] = {
        "eager": OnePass(model).eval(),
        "eager channels-last": lambda x: last(x.contiguous(memory_format=torch.channels_last)),
    }
    if compile:
        variants["compiled"] = torch.compile(OnePass(settled(model)).eval())
    try:
        need_onnx()
    except AibError as error:
        return variants, [f"onnx was not measured: {error}"]
    size = model.preprocessing.image_size
    fp32 = to_onnx(OnePass(traceable(model)).eval(), size, describe(model, "onnx"))
    noise = torch.randint(256, (CALIBRATION, 3, size, size), dtype=torch.uint8)
    variants["onnx"] = open_onnx(fp32)
    variants["onnx int8"] = open_onnx(to_int8(fp32, noise, {}))
    return variants, []


@torch.inference_mode()
def time_in_turns(
    variants: dict[str, Variant], pixels: Tensor, seconds: float
) -> tuple[dict[str, list[float]], list[str]]:
    """Seconds of every call per variant, and a note on each that fails (no C++ compiler, say)."""
    times: dict[str, list[float]] = {}
    notes = []
    for name, call in variants.items():
        try:
            with quietly():
                call(pixels)  # compiles, allocates
                call(pixels)
        except Exception as error:  # a compiler may raise anything
            notes.append(f"{name} was not measured: {first_line(error)}")
            continue
        times[name] = []
    end = time.perf_counter() + seconds * len(times)
    while time.perf_counter() < end or not times["eager"]:
        for name, taken in times.items():
            time.sleep(PAUSE)
            variants[name](pixels)  # not counted: brings its weights back into the cache
            for _ in range(CALLS):
                began = time.perf_counter()
                variants[name](pixels)
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
            "p90_ms": 1e3 * statistics.quantiles(taken, n=10, method="inclusive")[-1],
            "ratio": eager / statistics.median(taken),
            "calls": len(taken),
        }
        for name, taken in times.items()
    ]
