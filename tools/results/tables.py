"""The tables of the docs, made from the stored runs. ± is the standard deviation over seeds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aib.config.paper import PAPER_ERRORS, PAPER_PARAMETERS
from aib.data.specs import SPECS
from aib.errors import AibError
from aib.figures.table import NOTHING, Table, number, table_of, without_empty_columns
from aib.models.registry import MODELS, list_models
from aib.system.files import without_folders
from tools.results.collect import count_parameters
from tools.results.maps import (
    CONTRAST,
    DROP,
    LOCATED,
    MAP_KINDS,
    find,
    located,
    maps,
    masks,
    mean,
    means,
    spread,
    stability,
    studied,
    verdicts,
)
from tools.results.store import Results, StoredRun, by_recipe, data_set, recipe

HELD_OUT = "‡"
OWN_TEST_IMAGES = "†"


def errors(groups: Iterable[Sequence[StoredRun]], compared: Sequence[StoredRun]) -> Table:
    """One row per recipe: the error, beside the paper's where the model is built as there.

    Without evaluators, and without the held-out errors that the table of masks has.
    """
    rows = []
    for runs in groups:
        first = runs[0]
        if first.model.endswith("_evaluator") or (first.on_held_out and find(first.maps, "mask")):
            continue
        mark = f" {HELD_OUT}" * first.on_held_out
        mark += f" {OWN_TEST_IMAGES}" * any(run.own_test_images for run in runs)
        rows.append(
            {
                "model": f"`{first.model}`",
                "recipe": recipe(first, compared),
                "epochs": str(first.epochs),
                "seeds": str(len(runs)),
                "error %": error(runs) + mark,
                "paper %": number(first.paper_error(), 2),
                "top-5 %": mean([find(run.evaluation, "top5_error") for run in runs], 1),
                "training %": mean([run.training_error for run in runs], 1),
                "calibration %": mean([run.evaluation["calibration_error"] for run in runs], 1),
                "parameters, M": number(first.parameters, 2, 1e-6),
                "minutes": mean([run.minutes for run in runs], 1),
                "hardware": first.environment["device"],
            }
        )
    return without_empty_columns(table_of("Error", rows))


def error(runs: Sequence[StoredRun]) -> str:
    """Mean and standard deviation over seeds, or the error of one run with its 95% interval."""
    if len(runs) > 1:
        return spread([run.error for run in runs])
    low, high = runs[0].evaluation["top1_interval"]
    return f"{runs[0].error:.2f} ({low:.2f} to {high:.2f})"


def other_data(groups: Iterable[Sequence[StoredRun]], compared: Sequence[StoredRun]) -> Table:
    """The same models on data sets they were not trained on: one row per recipe and data set."""
    rows = []
    for runs in groups:
        for data, by_classes in elsewhere(runs).items():
            papers = runs[0].paper_error(data) if runs[0].data == "cifar10" else None
            rows.append(
                {
                    "data": data,
                    "model": f"`{runs[0].model}`",
                    "recipe": recipe(runs[0], compared),
                    "seeds": str(len(runs)),
                    "error %, class numbers": mean(by_classes.get("raw", ()), 2),
                    "paper %": number(papers, 2),
                    "error %, class names": mean(by_classes.get("matched", ()), 2),
                }
            )
    note = "The paper compares class numbers, which differ between CIFAR-10 and STL-10."
    return table_of("Other data", rows, note)


def elsewhere(runs: Iterable[StoredRun]) -> dict[str, dict[str, list[float]]]:
    """Errors on data sets the runs were not trained on, with classes matched by number ("raw") or
    by name ("matched")."""
    errors: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for key, one in run.evaluations.items():
            if not key.startswith(run.data + " "):
                of_data = errors.setdefault(f"{without_folders(one['data'])} {one['split']}", {})
                of_data.setdefault(one["classes"], []).append(one["top1_error"])
    return errors


def summary(results: Results, *rows: str) -> Table:
    """Chosen rows, `PRESET:MODEL[:MAP]`: the error, where the map lies, and the verdict on it."""
    made = []
    for row in rows:
        preset, model, *kind = row.split(":")
        runs = [run for run in results.runs if (run.preset, run.model) == (preset, model)]
        if not runs:
            raise AibError(f"results/ has no run of {row}")
        studies = [run.maps for run in runs if run.maps]
        control = kind in (["centre"], ["random"])  # ignores model and image
        cells = {
            "images": title(data_set(runs[0].data)),
            "model": NOTHING if control else f"`{model}`",
            "seeds": NOTHING if control else str(len(runs)),
            "error %": NOTHING if control else spread([run.error for run in runs]),
            "map": MAP_KINDS[kind[0]] if kind else NOTHING,
        }
        for column, digits, key, times in LOCATED if kind else ():
            if key in ("pointing", "mask_iou"):
                found = [find(study, "located", kind[0], key, 0) for study in studies]
                cells[column] = mean([times * value for value in found], digits)
        made.append(cells | {"verdict": verdicts(studies) if kind == ["own"] else NOTHING})
    return without_empty_columns(table_of("Summary", made))


def table_1(results: Results) -> Table:
    """The paper's Table 1: our error in percent, and the paper's. Of several presets the one with
    the most epochs counts."""
    ours: dict[tuple[str, str], str] = {}
    for runs in sorted(by_preset(results), key=lambda runs: runs[0].epochs):
        first = runs[0]
        if first.paper_error() is None:
            continue
        ours[first.model, first.data] = spread([run.error for run in runs])
        for data, errors in elsewhere(runs).items():
            if first.data == "cifar10" and "raw" in errors:
                ours[first.model, data] = spread(errors["raw"])
    rows = []
    for model in list_models():
        cells = {"model": f"`{model}`"}
        for data in dict.fromkeys(data for _, data in PAPER_ERRORS):
            paper = PAPER_ERRORS.get((model, data))
            mine = ours.get((model, data), NOTHING)
            cells[data] = NOTHING if paper is None else f"{mine} / {paper:.2f}"
        rows.append(cells)
    return table_of("Table 1", rows)


def verdict(results: Results) -> Table:
    """The verdicts on the maps of models trained with a preset's recipe."""
    rows = [
        {
            "data": title(data_set(runs[0].data)),
            "model": f"`{runs[0].model}`",
            "preset": f"`{runs[0].preset}`",
            "seeds": str(len(studies)),
            "map is": verdicts(studies),
            **means([DROP, CONTRAST], studies),
        }
        for runs, studies in studied(by_preset(results))
        if verdicts(studies) != NOTHING
    ]
    note = (
        "Of models trained with a preset. Another image's map: accuracy lost when each image gets "
        "the map of another one. Contrast: highest value of a map minus its lowest. Most verdicts "
        "are older than the transplant."
    )
    return without_empty_columns(table_of("Verdicts", rows, note))


def by_preset(results: Results) -> list[list[StoredRun]]:
    """The runs of a preset's recipe, grouped by recipe, in the order of data sets and models."""
    runs = [run for run in results.runs if run.model in MODELS and run.preset]
    runs.sort(key=lambda run: (run.data, list(MODELS).index(run.model), run.preset))
    return by_recipe(runs)


def sweep(found: Mapping[str, Any]) -> Table:
    """One row per point of a sweep."""
    rows = [
        {
            "setting": f"`{point['setting']}`",
            "value": f"{point['value']:g}",
            "accuracy %": number(point["accuracy"], 1),
            "AUROC": number(point["auroc"], 3),
            "KL, bits": number(point["kl_bits"], 1),
            "anchors in use": number(point["perplexity"], 1),
        }
        for point in found["points"]
    ]
    return table_of(
        found["title"], rows, f"`{found['model']}`, {found['epochs']} epochs, one seed."
    )


def speed(results: Results) -> Table:
    """Throughput, beside a plain loop in the same run."""
    rows = [
        {
            "what": one["what"],
            "model": f"`{one['model']}`" + (", twice" if one.get("propose") == "twice" else ""),
            "width": f"{one['width']:g}",
            "pixels": str(one["image_size"]),
            "batch": str(one["batch_size"]),
            "images/s": f"{one['images_per_second']:,.0f}",
            "plain, images/s": f"{one['plain_images_per_second']:,.0f}",
            "ratio": f"{one['ratio']:.2f}",
            "of its twin without a mask": number(one.get("twin_ratio"), 2),
            "% of the matmul rate": number(one["share_of_matmul"], 0, 100),
            "hardware": one["environment"]["device"],
        }
        for one in results.benchmarks.values()
        if "plain_images_per_second" in one
    ]
    note = (
        "Plain is fp32, eager, with a DataLoader; for EfficientNet-Lite it is timm's network "
        "without a mask. Ours is bf16, compiled and, in training, with CUDA graphs, on the GPU; "
        "fp32 and eager on a CPU. Inference averages 4 x 12 samples."
    )
    return without_empty_columns(table_of("Speed", rows, note))


def latency(results: Results) -> Table:
    """How long a call takes on a CPU: one deterministic pass, or an explanation."""
    rows = [
        {
            "model": f"`{one['model']}`, width {one['width']:g}",
            "pixels": str(one["image_size"]),
            "batch": str(row["batch"]),
            "runtime": row["way"],
            "median, ms": f"{row['median_ms']:.1f}",
            "90th percentile, ms": f"{row['p90_ms']:.1f}",
            "hardware": f"{one['environment']['device']}, {one['latency']['threads']} threads",
        }
        for one in results.benchmarks.values()
        for row in one.get("latency", {}).get("rows", ())
        if "int8" not in row["way"]
    ]
    notes = (one["note"] for one in results.benchmarks.values() if "note" in one)
    return table_of("Latency", rows, " ".join(notes))


def parameters(results: Results) -> Table:
    """The paper's supplementary table of parameters, in millions."""
    sizes = {(32, 10): "32, 10", (32, 100): "32, 100", (224, 200): "224, 200"}
    rows = []
    for model in dict.fromkeys(model for model, *_ in PAPER_PARAMETERS):
        cells = {"model": f"`{model}`"}
        for (side, classes), name in sizes.items():
            paper = PAPER_PARAMETERS.get((model, side, classes))
            recipe = {"kind": "named", "name": model, "num_classes": classes, "image_size": side}
            cells[name] = number(count_parameters(recipe) if paper else None, 2, 1e-6)
            cells[f"{name}: paper"] = number(paper, 2, 1e-6)
        rows.append(cells)
    return table_of("Parameters", rows)


def title(name: str) -> str:
    """A data set's title in brief."""
    if name == "shapes":
        return "Shapes"
    if name == "folder":
        return "Own photographs"
    return SPECS[name].title.partition(",")[0] if name in SPECS else name


ByRecipe = Callable[[Iterable[Sequence[StoredRun]], Sequence[StoredRun]], Table]
OF_ALL: dict[str, Callable[..., Table]] = {
    "summary": summary,
    "table_1": table_1,
    "speed": speed,
    "latency": latency,
    "parameters": parameters,
}
OF_RUNS: dict[str, ByRecipe] = {
    "runs": errors,
    "maps": maps,
    "masks": masks,
    "located": located,
    "stability": stability,
    "other_data": other_data,
}
