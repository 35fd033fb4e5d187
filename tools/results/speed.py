"""Tables of `aib bench`: throughput, loading, and latency on a CPU."""

from collections.abc import Iterable, Mapping
from typing import Any

from aib.figures.table import NOTHING, Table, number
from tools.results.read import StoredRun

Bench = Mapping[str, Any]


def speed_table(files: Mapping[str, Bench]) -> Table:
    """One row per benchmark."""
    rows = [
        (
            found["what"],
            _model(found),
            _how(found),
            f"{found['images_per_second']:,.0f}",
            f"{found['plain_images_per_second']:,.0f}",
            f"{found['ratio']:.2f}",
            f"{100 * found['share_of_matmul']:.0f}",
            _against(found),
            number(found["peak_memory_gib"], 1),
            number(found.get("first_epoch_seconds"), 0),
            found["environment"]["device"],
        )
        for found in files.values()
        if found["what"] != "data"
    ]
    head = (
        "what", "model", "how", "images/s", "plain, images/s", "ratio", "% of the matmul rate",
        "rate to another model's", "memory, GiB", "first epoch, s", "hardware",
    )  # fmt: skip
    note = (
        "Plain: fp32, eager, with a DataLoader (its workers: see the files), in the same run. The "
        "matmul rate is that of one large matrix product. The first epoch includes compilation. "
        "Samples: attention x latent, per image."
    )
    return Table("Speed", head, tuple(rows), note)


def loading_table(files: Mapping[str, Bench]) -> Table:
    """Whether loading image files keeps up with training."""
    rows = [
        (
            f"{found['data']} at {found['image_size']} pixels",
            f"`{found['model']}`",
            f"{found['images_per_second']:,.0f}",
            f"{found['on_device_images_per_second']:,.0f}",
            f"{found['ratio']:.2f}",
            f"{found['loader_images_per_second']:,.0f}",
            f"{found['on_access_images_per_second']:,.0f} ({found['workers']} processes)",
            found["environment"]["device"],
        )
        for found in files.values()
        if found["what"] == "data"
    ]
    head = (
        "data", "model", "training, images/s", "on two batches on the device", "ratio",
        "loading alone", "decoding every time", "hardware",
    )  # fmt: skip
    note = "Images are decoded once; later epochs crop from the copy, on the device if it fits."
    return Table("Loading", head, tuple(rows), note)


def study_table(runs: Iterable[StoredRun]) -> Table:
    """How long the studies of `aib interpret` took, those on a GPU."""
    rows = [
        (
            str(study.data),
            f"`{run.model}`",
            f"{study.images:,}",
            f"{study.subset_images:,}",
            "yes" if study.evaluator else "no",
            f"{study.seconds:.0f}",
            study.environment["device"],
        )
        for run in runs
        if (study := run.study) and study.seconds and "NVIDIA" in study.environment["device"]
    ]
    head = ("data", "model", "images", "of them with post-hoc maps", "evaluator", "seconds",
            "hardware")  # fmt: skip
    note = "Without opening the run and drawing. The files' notes say which shared the GPU."
    return Table("Studies of maps", head, tuple(rows), note)


def latency_table(files: Mapping[str, Bench]) -> Table:
    """How long one call takes on a CPU."""
    rows = [
        (
            _model(found),
            f"{row['batch']}",
            row["way"],
            f"{row['median_ms']:.1f}",
            f"{row['p90_ms']:.1f}",
            f"{row['ratio']:.2f}",
            f"{found['environment']['device']}, {found['latency']['threads']} threads",
        )
        for found in files.values()
        if "latency" in found
        for row in found["latency"]["rows"]
    ]
    head = ("model", "batch", "runtime", "median, ms", "90th percentile, ms", "eager / this",
            "hardware")  # fmt: skip
    note = "One deterministic pass, from pixels to outputs; the runtimes alternate within one run."
    return Table("Latency", head, tuple(rows), note)


def _how(found: Bench) -> str:
    parts = [f"batch {found['batch_size']}", found["precision"]]
    parts += [f"{found['samples']} samples"] if found.get("samples") else []
    parts += ["compiled"] if found["compile"] else []
    parts += ["CUDA graphs"] if found.get("graphs") else []
    return ", ".join(parts)


def _against(found: Bench) -> str:
    """The rate relative to the model that was trained in the same run."""
    if "against" not in found:
        return NOTHING
    return f"{found['against_ratio']:.2f} of `{found['against']}`"


def _model(found: Bench) -> str:
    model = f"`{found['model']}`" + (", twice" if found.get("propose") == "twice" else "")
    return model if found["width"] == 1 else f"{model} at width {found['width']:g}"
