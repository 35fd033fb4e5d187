"""Tables of attention maps: the main metrics per recipe, averaged over seeds."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from aib.config.preset import spread
from aib.figures.table import NOTHING, Table, table_of, without_empty_columns
from aib.interpret.metrics.reliance import Reliance
from aib.interpret.metrics.score import PRIMARY_TAU
from aib.interpret.results import Study
from aib.interpret.tables import NAMES, own_localisation
from tools.results.read import StoredRun, by_recipe, options

ANOTHER = "another image's map costs"
# A column's name, its digits, and where a study has the value.
Metric = tuple[str, int, Callable[[Study], float | None]]
METRICS: list[Metric] = [
    ("contrast", 2, lambda study: study.information.contrast),
    ("energy passed %", 1, lambda study: _percent(study.information.energy_passed)),
    ("AUROC", 2, lambda study: own_localisation(study).auroc),
    ("AUROC, centre", 2, lambda study: _value(study.localisation, "centre", "auroc")),
    ("mass inside %", 1, lambda study: _percent(own_localisation(study).energy_inside)),
    ("insertion", 2, lambda study: _value(study.faithfulness, "own", "insertion")),
    ("insertion, centre", 2, lambda study: _value(study.faithfulness, "centre", "insertion")),
    ("deletion", 2, lambda study: _value(study.faithfulness, "own", "deletion")),
    ("deletion, random", 2, lambda study: _value(study.faithfulness, "random", "deletion")),
    (ANOTHER, 1, lambda study: cost(study)),
]
MASKS: list[Metric] = [
    ("AUROC", 3, lambda study: study.own_localisation.auroc),  # over all images
    ("pointing %", 1, lambda study: _percent(study.own_localisation.pointing)),
    ("area %", 1, lambda study: study.mask.area if study.mask else None),
    ("m = 0 %", 1, lambda study: study.mask.closed if study.mask else None),
    ("m = 1 %", 1, lambda study: study.mask.open if study.mask else None),
    ("rounding costs", 1, lambda study: study.mask.rounded.value if study.mask else None),
    (ANOTHER, 1, lambda study: cost(study)),
]
# A column's name, its digits, the metric's name in a study, and the factor of its values there.
LOCATED: list[tuple[str, int, str, float]] = [
    ("pointing %", 1, "pointing", 100),
    ("AUROC", 3, "auroc", 1),
    ("mass inside %", 1, "energy", 100),
    ("MaxBoxAccV2 %", 1, "max_box_acc", 100),
    ("any component %", 1, "max_box_acc_any", 100),
    ("PxAP", 3, "pxap", 1),
    ("mask IoU", 3, "mask_iou", 1),
]
NOTE = (
    "Means over seeds, ± their standard deviation. Columns with a comma are controls for the "
    "column before. The last cost is in points of accuracy."
)


def studied(runs: Iterable[StoredRun]) -> list[tuple[list[StoredRun], list[Study]]]:
    """Runs with a study of their maps, grouped by recipe."""
    groups = by_recipe(run for run in runs if run.study)
    return [(group, [run.study for run in group if run.study]) for group in groups]


def maps_table(runs: Sequence[StoredRun], brief: bool = False) -> Table:
    """One row per recipe: error, metrics of the maps, and whether the decision uses them."""
    rows = []
    for group, studies in studied(runs):
        rows.append(
            {
                "model": f"`{group[0].model}`",
                "options": options(group[0], runs, brief),
                "seeds": str(len(group)),
                "error %": spread([_error_in_study(run) for run in group]),
                **means(METRICS, studies),
                "map is": verdicts(studies),
            }
        )
    return without_empty_columns(table_of("Over seeds", rows, NOTE))


def means(metrics: Sequence[Metric], studies: Sequence[Study]) -> dict[str, str]:
    """Metrics averaged over seeds, by name."""
    return {name: mean([find(s) for s in studies], digits) for name, digits, find in metrics}


def masks_table(runs: Sequence[StoredRun]) -> Table:
    """One row per recipe of masked models: error, maps, and how closed and how binary masks are."""
    rows = [
        {
            "options": options(group[0], runs, brief=True),
            "seeds": str(len(group)),
            "images": str(studies[0].split),
            "error %": spread([_error_in_study(run) for run in group]),
            **means(MASKS, studies),
        }
        for group, studies in studied(run for run in runs if run.study and run.study.mask)
    ]
    return without_empty_columns(table_of("Masks", rows, NOTE))


def _error_in_study(run: StoredRun) -> float:
    """The error on the split that the study was made on, averaged over samples."""
    held_out = run.study is not None and run.study.split == "val"
    return (run.held_out if held_out and run.held_out else run.evaluation).top1_error


def stability_table(runs: Sequence[StoredRun]) -> Table:
    """The paper's score and the centred one: lowest and highest over modifications and seeds."""
    rows = []
    for group, studies in studied(runs):
        stability = [each for study in studies for each in study.stability.values()]
        scores = [each.score.get(PRIMARY_TAU) for each in stability]
        centred = [each.centred.get(PRIMARY_TAU) for each in stability]
        rows.append(
            {
                "model": f"`{group[0].model}`",
                "options": options(group[0], runs, brief=True),
                "seeds": str(len(group)),
                "score %": _range(each.value for each in scores if each),
                "paper %": _range(studies[0].paper.values()),
                "centred score %": _range(each.value for each in centred if each),
                "contrast": mean([study.information.contrast for study in studies], 2),
            }
        )
    shown = [row for row in rows if row["score %"] != NOTHING]
    return without_empty_columns(table_of("Stability", shown))


def background_table(runs: Sequence[StoredRun]) -> Table:
    """How much of each map's mass lies on the background, by source of the map."""
    rows = []
    for group, studies in studied(runs):
        row = {
            "model": f"`{group[0].model}`",
            "options": options(group[0], runs, brief=True),
            "seeds": str(len(group)),
        }
        for source, name in NAMES.items():
            inside = [_value(study.localisation, source, "energy") for study in studies]
            row[name] = mean([_percent(1 - v) for v in inside if v is not None], 1)
        rows.append(row)
    return without_empty_columns(table_of("Mass on the background, %", rows))


def located_table(runs: Sequence[StoredRun]) -> Table:
    """One row per recipe and kind of map: how well it finds the object. The controls know no model:
    they come once, at the end. The scattered maps of Integrated Gradients are left out, and metrics
    that older studies of a row lack."""
    rows: list[dict[str, str]] = []
    controls: dict[str, dict[str, str]] = {}
    for group, studies in studied(runs):
        for source, name in NAMES.items():
            found = [s.localisation[source] for s in studies if source in s.localisation]
            if not found or source == "integrated_gradients":
                continue
            row = {
                "model": f"`{group[0].model}`",
                "options": options(group[0], runs, brief=True),
                "map": name,
                "seeds": str(len(found)),
            }
            for column, digits, key, factor in LOCATED:
                values = [getattr(one, key) for one in found]
                known = [factor * value.value for value in values if value]
                row[column] = mean(known, digits) if len(known) == len(found) else NOTHING
            if source in ("centre", "random"):
                controls.setdefault(source, row | {"model": "", "options": "", "seeds": ""})
            else:
                rows.append(row)
    return without_empty_columns(table_of("Localisation", [*rows, *controls.values()], NOTE))


def mean(values: Sequence[float | None], digits: int) -> str:
    """Mean and standard deviation of the values that are there."""
    known = [value for value in values if value is not None]
    return (
        spread(known, digits).replace(f"-{0:.{digits}f}", f"{0:.{digits}f}") if known else NOTHING
    )


def verdicts(studies: Iterable[Study]) -> str:
    """'used', or 'used (2), undecided (1)' where seeds differ."""
    counts = Counter(study.verdict.name for study in studies if study.verdict)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{word} ({n})" for word, n in counts.items()) or NOTHING


def cost(study: Study) -> float | None:
    """Points of accuracy lost with another image's map in the map's place."""
    if not isinstance(study.reliance, Reliance):  # a model without a map has none
        return None
    return 100 * study.reliance.replaced["another"].drop


def reliance(studies: Mapping[str, Study]) -> Table:
    """Accuracy lost when the map is replaced."""
    rows = [
        {
            "run": label,
            "accuracy %": f"{100 * found.accuracy:.2f}",
            "its mean": found.replaced["mean"].text,
            "shuffled in space": found.replaced["shuffled"].text,
            "another image's map": found.replaced["another"].text,
            "map is": study.verdict.name if study.verdict else NOTHING,
        }
        for label, study in studies.items()
        if isinstance(found := study.reliance, Reliance)
    ]
    note = (
        "Percentage points of accuracy lost with the map replaced by each of these (95% interval). "
        "Used: one interval lies above one point. Decorative: all lie below. Undecided: neither, "
        "or there is too little accuracy to lose. The swaps within and between classes count, too; "
        "the mean and the shuffled map do not count for masked models."
    )
    return table_of("Does the decision need the map?", rows, note)


def posthoc_notes(runs: Iterable[StoredRun]) -> Iterator[str]:
    """What the post-hoc maps of older studies (schema 1) attribute, and of which runs."""
    studies = {run.name: run.study for run in runs if run.study}
    for note in dict.fromkeys(study.posthoc_note for study in studies.values()):
        names = [name for name, study in studies.items() if study.posthoc_note == note]
        which = "" if len(names) == len(studies) else f" ({', '.join(names)})"
        yield from [f"{note}{which}."] if note else []


def _range(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{min(known):.0f} to {max(known):.0f}" if known else NOTHING


def _value(found: Mapping[str, Any], source: str, name: str) -> float | None:
    """A metric of one source of maps."""
    return getattr(found[source], name).value if source in found else None


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
