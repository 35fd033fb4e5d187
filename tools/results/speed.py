"""The page's tables of `aib bench`: images per second, and how long one caller waits."""

from collections.abc import Iterator, Mapping
from typing import Any

from aib.figures.table import Table, number
from tools.results.markdown import markdown

Found = Mapping[str, Any]


def speed(files: Mapping[str, Found]) -> Iterator[str]:
    """One row a measurement."""
    rows = [
        (
            f"[{found['what']}](../results/{name})",
            _benched(found),
            _how(found),
            f"{found['images_per_second']:,.0f}",
            f"{found['plain_images_per_second']:,.0f}",
            f"{found['ratio']:.2f}",
            f"{100 * found['share_of_matmul']:.0f}",
            number(found["peak_memory_gib"], 1),
            number(found.get("first_epoch_seconds"), 0),
            found["environment"]["device"],
        )
        for name, found in files.items()
    ]
    head = (
        "what", "model", "how", "images/s", "plain, images/s", "ratio", "% of the matrix rate",
        "memory, GiB", "first epoch, s", "hardware",
    )  # fmt: skip
    note = (
        "Plain is fp32, eager, fed by a DataLoader, in the same run; the matrix rate is one large "
        "product's. The first epoch includes compiling. Samples are attention x latent, an image."
    )
    yield from markdown(Table("Speed", head, tuple(rows), note))
    yield from _latency(files)


def _latency(files: Mapping[str, Found]) -> Iterator[str]:
    """How long one caller waits on a CPU, where that was measured."""
    rows = [
        (
            f"[{_benched(found)}](../results/{name})",
            f"{row['batch']}",
            row["way"],
            f"{row['median_ms']:.1f}",
            f"{row['p90_ms']:.1f}",
            f"{row['ratio']:.2f}",
            f"{found['environment']['device']}, {found['latency']['threads']} threads",
        )
        for name, found in files.items()
        if "latency" in found
        for row in found["latency"]["rows"]
    ]
    head = "model", "batch", "way", "median, ms", "90%, ms", "eager / this", "hardware"
    note = (
        "One deterministic pass, without samples, from pixels to outputs; the ways took turns in "
        "one run."
    )
    yield from markdown(Table("Latency", head, tuple(rows), note))


def _how(found: Found) -> str:
    parts = [f"batch {found['batch_size']}", found["precision"]]
    parts += [f"{found['samples']} samples"] if found.get("samples") else []
    parts += ["compiled"] if found["compile"] else []
    parts += ["CUDA graphs"] if found.get("graphs") else []
    return ", ".join(parts)


def _benched(found: Found) -> str:
    model = f"`{found['model']}`"
    return model if found["width"] == 1 else f"{model} at width {found['width']:g}"
