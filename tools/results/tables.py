"""The tables of the docs, made from the stored runs. ± is the standard deviation over seeds."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aib.config.paper import PAPER_ERRORS, has_papers_form
from aib.config.preset import spread
from aib.data.specs import SPECS
from aib.errors import AibError
from aib.figures.table import NOTHING, Table, number, table_of, without_empty_columns
from aib.models.registry import MODELS, list_models
from aib.system.files import without_folders
from tools.results.store import Results, StoredRun, by_recipe, data_set, recipe

HELD_OUT = "‡"
OWN_TEST_IMAGES = "†"
ANOTHER = "another image's map, points"
MAP_KINDS = {
    "own": "own map",
    "gradcam": "Grad-CAM",
    "centre": "centre (control)",
    "random": "random (control)",
}


class Metric(NamedTuple):
    """A column: its digits, and where the summary of a study has its value."""

    column: str
    digits: int
    path: tuple[str | int, ...]
    times: float = 1

    def of(self, maps: Mapping[str, Any]) -> float | None:
        """The value in one study, or None."""
        value = find(maps, *self.path)
        return None if value is None else self.times * value


def find(found: Any, *path: str | int) -> Any:
    """Follow keys and indices; None where there is nothing."""
    for key in path:
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and isinstance(key, int):
            found = found[key]
        else:
            return None
    return found


DROP = Metric(ANOTHER, 1, ("drops", "another", 0), 100)
MAPS = [
    DROP,
    Metric("of the same class", 1, ("drops", "same_class", 0), 100),
    Metric("probe on the map %", 1, ("encoding", "probe", "map", 0), 100),
    Metric("on the object %", 1, ("encoding", "probe", "mask", 0), 100),
    Metric("contrast", 2, ("contrast",)),
    Metric("insertion", 2, ("curves", "own", "insertion", 0)),
    Metric("centre", 2, ("curves", "centre", "insertion", 0)),
    Metric("deletion", 2, ("curves", "own", "deletion", 0)),
    Metric("random", 2, ("curves", "random", "deletion", 0)),
    Metric("evaluator", 1, ("evaluator", "own", "area", 0)),
    Metric("over centre", 1, ("evaluator", "own", "over_centre", 0)),
    Metric("over random", 1, ("evaluator", "own", "over_random", 0)),
]
MASKS = [
    Metric("AUROC", 3, ("own", "auroc")),  # over all images
    Metric("pointing %", 1, ("own", "pointing"), 100),
    Metric("area %", 1, ("mask", "area")),
    Metric("m = 0 %", 1, ("mask", "closed")),
    Metric("m = 1 %", 1, ("mask", "open")),
    Metric("rounding, points", 1, ("mask", "rounded")),
    DROP,
]
LOCATED = [
    ("pointing %", 1, "pointing", 100),
    ("AUROC", 3, "auroc", 1),
    ("mass inside %", 1, "energy", 100),
    ("MaxBoxAccV2 %", 1, "max_box_acc_any", 100),
    ("of the largest component %", 1, "max_box_acc", 100),
    ("PxAP", 3, "pxap", 1),
    ("mask IoU", 3, "mask_iou", 1),
]


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
        found: dict[str, dict[str, list[float]]] = {}
        for run in runs:
            for key, e in run.evaluations.items():
                if not key.startswith(run.data + " "):
                    errors = found.setdefault(f"{without_folders(e['data'])} {e['split']}", {})
                    errors.setdefault(e["classes"], []).append(e["top1_error"])
        for data, by_classes in found.items():
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


def maps(groups: Iterable[Sequence[StoredRun]], compared: Sequence[StoredRun]) -> Table:
    """One row per recipe: the verdict, and the metrics that it rests on.

    Masked models that were studied on held-out images have the table of masks alone.
    """
    rows = [
        {
            "model": f"`{runs[0].model}`",
            "recipe": recipe(runs[0], compared),
            "seeds": str(len(studies)),
            "map is": verdicts(studies),
            **means(MAPS, studies),
        }
        for runs, studies in studied(groups)
        if not (studies[0]["split"] == "val" and "mask" in studies[0])
    ]
    note = (
        "The first two columns of points: accuracy lost with the map of another image, or of "
        "another image of the same class. Centre and random are controls for the column before "
        "them. Evaluator: area under its accuracy, and by how much that exceeds the controls."
    )
    return without_empty_columns(table_of("Maps", rows, note))


def masks(groups: Iterable[Sequence[StoredRun]], compared: Sequence[StoredRun]) -> Table:
    """One row per recipe of masked models: how closed and how binary the masks are."""
    rows = [
        {
            "model": f"`{runs[0].model}`",
            "recipe": recipe(runs[0], compared),
            "seeds": str(len(studies)),
            "images": studies[0]["split"],
            "error %": mean([error_of_split(run) for run in runs if run.maps], 2),
            **means(MASKS, studies),
        }
        for runs, studies in studied(groups)
        if "mask" in studies[0]
    ]
    return without_empty_columns(table_of("Masks", rows))


def error_of_split(run: StoredRun) -> float:
    """The error on the images that the study was made on."""
    held_out = find(run.maps, "split") == "val" and run.held_out
    return float((run.held_out if held_out else run.evaluation)["top1_error"])  # type: ignore[index]


def located(groups: Iterable[Sequence[StoredRun]], compared: Sequence[StoredRun]) -> Table:
    """One row per recipe and kind of map: how well it finds the object. Controls come last."""
    rows: list[dict[str, str]] = []
    controls: dict[str, dict[str, str]] = {}
    for runs, studies in studied(groups):
        for kind, name in MAP_KINDS.items():
            found = [m["located"][kind] for m in studies if kind in m.get("located", {})]
            if not found:
                continue
            row = {
                "model": f"`{runs[0].model}`",
                "recipe": recipe(runs[0], compared),
                "map": name,
                "seeds": str(len(found)),
            }
            for column, digits, key, times in LOCATED:
                values = [find(one, key, 0) for one in found]
                known = [times * value for value in values if value is not None]
                row[column] = mean(known, digits) if len(known) == len(found) else NOTHING
            if kind in ("centre", "random"):
                controls.setdefault(kind, row | {"model": "", "recipe": "", "seeds": ""})
            else:
                rows.append(row)
    rows += controls.values() if rows else ()
    return without_empty_columns(table_of("Localisation", rows))


def stability(groups: Iterable[Sequence[StoredRun]], compared: Sequence[StoredRun]) -> Table:
    """The interpretability score of each modification; below it the paper's and the centred one."""
    rows = []
    comparable = [
        (runs, studies)
        for runs, studies in studied(groups)
        if studies[0].get("paper") and runs[0].preset and has_papers_form(runs[0].recipe)
    ]
    names = dict.fromkeys(name for _, studies in comparable for name in studies[0]["paper"])
    for runs, studies in comparable:
        paper = studies[0]["paper"]
        model = {"model": f"`{runs[0].model}`", "recipe": recipe(runs[0], compared)}
        every = [study["stability"] for study in studies]
        for what, values in {
            "score": {name: _mean(one, name, "score", 0) for one in every for name in one},
            "paper": paper,
            "centred": {name: _mean(one, name, "centred") for one in every for name in one},
        }.items():
            shown = {name: number(values.get(name), 1) for name in names}
            rows.append({**model, "what": what, **shown})
    note = (
        "Share of maps with a cosine of at least 0.9 to the map of the modified image; the paper "
        "gives no threshold. A constant map scores 100; the centred score removes the mean first."
    )
    return without_empty_columns(table_of("Do maps stay the same?", rows, note))


def _mean(found: Mapping[str, Any], *path: str | int) -> float | None:
    value = find(found, *path)
    return None if value is None else float(value)


def summary(results: Results, *presets: str) -> Table:
    """The rows of README: `PRESET:MODEL`, error beside the paper's, and the verdict."""
    rows = []
    for wanted in presets:
        preset, model = wanted.split(":")
        runs = [run for run in results.runs if (run.preset, run.model) == (preset, model)]
        if not runs:
            raise AibError(f"results/ has no run of {wanted}")
        studies = [run.maps for run in runs if run.maps]
        rows.append(
            {
                "data": title(data_set(runs[0].data)),
                "model": f"`{model}`",
                "error %": spread([run.error for run in runs]),
                "paper %": number(runs[0].paper_error(), 2),
                "seeds": str(len(runs)),
                ANOTHER: mean([DROP.of(study) for study in studies], 1),
                "map is": verdicts(studies),
            }
        )
    return table_of("Summary", rows)


def papers_models(results: Results) -> Table:
    """Models built as in the paper and trained with a preset's recipe: ours beside the paper's."""
    rows = []
    for runs in by_preset(results):
        first = runs[0]
        if first.paper_error() is not None:
            rows.append(
                {
                    "data": title(data_set(first.data)),
                    "model": f"`{first.model}`",
                    "error %": spread([run.error for run in runs]),
                    "paper %": number(first.paper_error(), 2),
                    "seeds": str(len(runs)),
                    "minutes": mean([run.minutes for run in runs], 1),
                    "preset": f"`{first.preset}`",
                }
            )
    return table_of("Errors", rows)


def verdict(results: Results) -> Table:
    """The verdicts on the maps of models trained with a preset's recipe."""
    rows = [
        {
            "data": title(data_set(runs[0].data)),
            "model": f"`{runs[0].model}`",
            "preset": f"`{runs[0].preset}`",
            "seeds": str(len(studies)),
            "map is": verdicts(studies),
            **means([DROP, *(m for m in MAPS if m.column in SHORT)], studies),
        }
        for runs, studies in studied(by_preset(results))
        if verdicts(studies) != NOTHING
    ]
    return without_empty_columns(table_of("Verdicts", rows))


SHORT = ("contrast", "insertion", "centre")


def by_preset(results: Results) -> list[list[StoredRun]]:
    """The runs of a preset's recipe, grouped by recipe, in the order of data sets and models."""
    runs = [run for run in results.runs if run.model in MODELS and run.preset]
    runs.sort(key=lambda run: (run.data, list(MODELS).index(run.model), run.preset))
    return by_recipe(runs)


def studied(
    groups: Iterable[Sequence[StoredRun]],
) -> list[tuple[Sequence[StoredRun], list[Mapping[str, Any]]]]:
    """The groups with a study of their maps, and these studies."""
    found = [(runs, [run.maps for run in runs if run.maps]) for runs in groups]
    return [(runs, studies) for runs, studies in found if studies]


def boxes(results: Results) -> Table:
    """MaxBoxAccV2 of class activation maps, step by step to the published form, and of a mask."""
    names = {
        "vgg_pooled": "14 x 14",
        "vgg_deeper": "14 x 14, one more convolution",
        "vgg_fine": "28 x 28",
        "vgg_fine_deeper": "28 x 28, one more convolution",
        "vgg_aib_masked": "masked: its mask",
    }
    rows = []
    for found in results.others["cub200_boxes"]["boxes"]:
        forms = {(form["class"], form["values"]): form for form in found["maps"]}
        mask = forms.get(("predicted", "the mask"))
        positive = mask or forms["predicted", "positive"]
        true = mask or forms["true", "positive"]
        steps = {
            "all values %": find(forms, ("predicted", "all"), "max_box_acc"),  # type: ignore[arg-type]
            "positive values %": positive["max_box_acc"],
            "of the true class %": None if mask else true["max_box_acc"],
            "any component %": true["max_box_acc_any"],
        }
        rows.append(
            {
                "network": names[found["model"]],
                "error %": number(found["error"], 1),
                **{name: number(value, 1, 100) for name, value in steps.items()},
            }
        )
    return table_of("Boxes", rows)


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
            "batch": str(one["batch_size"]),
            "images/s": f"{one['images_per_second']:,.0f}",
            "plain, images/s": f"{one['plain_images_per_second']:,.0f}",
            "ratio": f"{one['ratio']:.2f}",
            "% of the matmul rate": number(one["share_of_matmul"], 0, 100),
            "hardware": one["environment"]["device"],
        }
        for one in results.benchmarks.values()
        if "plain_images_per_second" in one
    ]
    note = (
        "Plain is fp32, eager, with a DataLoader. Ours is bf16, compiled and, in training, with "
        "CUDA graphs, on the GPU; fp32 and eager on a CPU. Inference averages 4 x 12 samples."
    )
    return table_of("Speed", rows, note)


def latency(results: Results) -> Table:
    """How long one deterministic call takes on a CPU."""
    rows = [
        {
            "model": f"`{one['model']}`, width {one['width']:g}",
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
    return table_of("Latency", rows)


def paper_errors(results: Results) -> Table:
    """The paper's Table 1."""
    columns = ("cifar10", "cifar100", "cub200", "svhn", "stl10 train", "stl10 test")
    rows = [
        {"model": f"`{model}`"}
        | {name: number(PAPER_ERRORS.get((model, name)), 2) for name in columns}
        for model in list_models()
    ]
    return table_of("Table 1", rows)


def means(metrics: Sequence[Metric], studies: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Metrics averaged over seeds, by column."""
    return {m.column: mean([m.of(study) for study in studies], m.digits) for m in metrics}


def mean(values: Iterable[float | None], digits: int) -> str:
    """Mean and standard deviation of the values that are there."""
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    return spread(known, digits).replace(f"-{0:.{digits}f}", f"{0:.{digits}f}")


def verdicts(studies: Iterable[Mapping[str, Any]]) -> str:
    """'used', or 'used (2), undecided (1)' where seeds differ."""
    counts = Counter(study["verdict"] for study in studies if study.get("verdict"))
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{word} ({n})" for word, n in counts.items()) or NOTHING


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
    "errors": papers_models,
    "verdict": verdict,
    "boxes": boxes,
    "speed": speed,
    "latency": latency,
    "paper_errors": paper_errors,
}
OF_RUNS: dict[str, ByRecipe] = {
    "runs": errors,
    "maps": maps,
    "masks": masks,
    "located": located,
    "stability": stability,
    "other_data": other_data,
}
