"""The tables of attention maps: verdicts, masks, localisation and stability."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aib.config.paper import has_papers_form
from aib.figures.table import NOTHING, Table, number, table_of, without_empty_columns
from tools.results.store import StoredRun, recipe

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
CONTRAST = Metric("contrast", 2, ("contrast",))
MAPS = [
    DROP,
    Metric("of the same class", 1, ("drops", "same_class", 0), 100),
    Metric("probe on the map %", 1, ("encoding", "probe", "map", 0), 100),
    Metric("on the object %", 1, ("encoding", "probe", "mask", 0), 100),
    CONTRAST,
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
    ("MaxBoxAccV2 %", 1, "max_box_acc", 100),
    ("largest component %", 1, "largest_box_acc", 100),  # older studies; at most as high
    ("PxAP", 3, "pxap", 1),
    ("mask IoU", 3, "mask_iou", 1),
]


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
        "The first two columns of points are the accuracy lost with the map of another image, and "
        "of another image of the same class. Centre and random are controls for the column before "
        "them. Evaluator is the area under its accuracy, followed by its lead over the controls."
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
        "Score: share of maps with a cosine of at least 0.9 to the map of the modified image. The "
        "paper gives no threshold. A constant map scores 100. The centred score subtracts the mean "
        "of each map first."
    )
    return without_empty_columns(table_of("Do maps stay the same?", rows, note))


def _mean(found: Mapping[str, Any], *path: str | int) -> float | None:
    value = find(found, *path)
    return None if value is None else float(value)


def studied(
    groups: Iterable[Sequence[StoredRun]],
) -> list[tuple[Sequence[StoredRun], list[Mapping[str, Any]]]]:
    """The groups with a study of their maps, and these studies."""
    found = [(runs, [run.maps for run in runs if run.maps]) for runs in groups]
    return [(runs, studies) for runs, studies in found if studies]


def boxes(content: Mapping[str, Any]) -> Table:
    """MaxBoxAccV2 of class activation maps, step by step to the published form, and of a mask."""
    names = {
        "vgg_pooled": "14 x 14",
        "vgg_deeper": "14 x 14, one more convolution",
        "vgg_fine": "28 x 28",
        "vgg_fine_deeper": "28 x 28, one more convolution",
        "vgg_aib_masked": "masked: its mask",
    }
    rows = []
    for one in content["boxes"]:
        forms = {f"{form['class']}, {form['values']}": form for form in one["maps"]}
        mask = forms.get("predicted, the mask", {})
        steps = {
            "all values %": find(forms, "predicted, all", "max_box_acc"),
            "positive values %": (mask or forms["predicted, positive"])["max_box_acc"],
            "of the true class %": find(forms, "true, positive", "max_box_acc"),
            "any component %": (mask or forms["true, positive"])["max_box_acc_any"],
        }
        shares = {name: number(value, 1, 100) for name, value in steps.items()}
        network = {"network": names[one["model"]], "error %": number(one["error"], 1)}
        rows.append(network | shares)
    return table_of("Boxes, MaxBoxAccV2", rows, content["note"])


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


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean of the values, with their standard deviation if there are several."""
    more = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{more}"
