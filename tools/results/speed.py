"""Tables of `aib bench`: throughput, loading, and latency on a CPU."""

from collections.abc import Iterable, Mapping
from typing import Any

from aib.evaluation.error import describe_samples
from aib.figures.table import NOTHING, Table, number, table_of
from tools.results.read import StoredRun

Bench = Mapping[str, Any]


def speed_table(files: Mapping[str, Bench]) -> Table:
    """One row per benchmark."""
    rows = [
        {
            "what": found["what"],
            "model": _model(found),
            "how": _how(found),
            "images/s": f"{found['images_per_second']:,.0f}",
            "plain, images/s": f"{found['plain_images_per_second']:,.0f}",
            "ratio": f"{found['ratio']:.2f}",
            "% of the matmul rate": f"{100 * found['share_of_matmul']:.0f}",
            "rate to another model's": _against(found),
            "memory, GiB": number(found["peak_memory_gib"], 1),
            "first epoch, s": number(found.get("first_epoch_seconds"), 0),
            "hardware": found["environment"]["device"],
        }
        for found in files.values()
        if found["what"] != "data"
    ]
    note = (
        "Plain: fp32, eager, with a DataLoader (its workers: see the files), in the same run. The "
        "matmul rate is that of one large matrix product. The first epoch includes compilation. "
        "Samples: attention x latent, per image."
    )
    return table_of("Speed", rows, note)


def loading_table(files: Mapping[str, Bench]) -> Table:
    """Whether loading image files keeps up with training."""
    rows = [
        {
            "data": f"{found['data']} at {found['image_size']} pixels",
            "model": f"`{found['model']}`",
            "training, images/s": f"{found['images_per_second']:,.0f}",
            "on two batches on the device": f"{found['on_device_images_per_second']:,.0f}",
            "ratio": f"{found['ratio']:.2f}",
            "loading alone": f"{found['loader_images_per_second']:,.0f}",
            "decoding every time": f"{found['on_access_images_per_second']:,.0f} "
            f"({found['workers']} processes)",
            "hardware": found["environment"]["device"],
        }
        for found in files.values()
        if found["what"] == "data"
    ]
    note = "Images are decoded once; later epochs crop from the copy, on the device if it fits."
    return table_of("Loading", rows, note)


def study_table(runs: Iterable[StoredRun]) -> Table:
    """How long the studies of `aib interpret` took, those on a GPU: the shortest of equal ones."""
    shortest: dict[tuple[tuple[str, str], ...], float] = {}
    for run in runs:
        study = run.study
        if study and study.seconds and "NVIDIA" in study.environment["device"]:
            what = {
                "data": str(study.data),
                "model": f"`{run.model}`",
                "images": f"{study.images:,}",
                "of them with post-hoc maps": f"{study.subset_images:,}",
                "evaluator": "yes" if study.evaluator else "no",
                "hardware": study.environment["device"],
            }
            key = tuple(what.items())
            shortest[key] = min(study.seconds, shortest.get(key, study.seconds))
    rows = [dict(key) | {"seconds": f"{seconds:.0f}"} for key, seconds in shortest.items()]
    note = "Without opening the run and drawing. The files' notes say which shared the GPU."
    return table_of("Studies of maps", rows, note)


def latency_table(files: Mapping[str, Bench]) -> Table:
    """How long one call takes on a CPU."""
    rows = [
        {
            "model": _model(found),
            "batch": f"{row['batch']}",
            "runtime": row["way"],
            "median, ms": f"{row['median_ms']:.1f}",
            "90th percentile, ms": f"{row['p90_ms']:.1f}",
            "eager / this": f"{row['ratio']:.2f}",
            "hardware": f"{found['environment']['device']}, {found['latency']['threads']} threads",
        }
        for found in files.values()
        if "latency" in found
        for row in found["latency"]["rows"]
    ]
    note = "One deterministic pass, from pixels to outputs; the runtimes alternate within one run."
    return table_of("Latency", rows, note)


def _how(found: Bench) -> str:
    parts = [f"batch {found['batch_size']}", found["precision"]]
    parts += [describe_samples(found["samples"])] if found.get("samples") else []
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
