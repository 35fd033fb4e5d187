"""The tables inside the documentation, between `<!-- table: NAME -->` and `<!-- end -->`.

`NAME` is in a table below; what follows it names files of results/ without their ending:
`<!-- table: maps cifar10_vgg cifar10_wrn -->`.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from aib.config.paper import OTHER_FORM, PAPER_ERRORS
from aib.config.preset import spread
from aib.config.validation import reject_unknown
from aib.figures.table import NOTHING, Table, number, table_of, with_columns, without_empty_columns
from aib.interpret.metrics.score import PRIMARY_TAU
from aib.models.registry import MODELS, list_models
from tools.results.errors import with_interval
from tools.results.maps import (
    ANOTHER,
    METRICS,
    background_table,
    cost,
    located_table,
    maps_table,
    masks_table,
    mean,
    means,
    stability_table,
    studied,
    verdicts,
)
from tools.results.markdown import markdown
from tools.results.pages import title
from tools.results.read import Results, StoredRun, by_recipe, data_set, named_options, options
from tools.results.speed import latency_table, speed_table

BOXES = {  # what `tools.cam` calls its networks
    "vgg_pooled": "14 x 14",
    "vgg_deeper": "14 x 14, one more convolution",
    "vgg_fine": "28 x 28",
    "vgg_fine_deeper": "28 x 28, one more convolution",
    "vgg_aib_masked": "masked: its mask",
}
SHOWN = ("contrast", "insertion", "insertion, centre")
BLOCK = re.compile(r"^<!-- table: (.+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


def errors(results: Results) -> Table:
    """Models built as in the paper and trained by a preset's recipe: ours beside the paper's."""
    rows = []
    for runs in _by_preset(results):
        first = runs[0]
        if first.paper_error() is not None:
            rows.append(
                {
                    "data set": title(data_set(first.data)),
                    "model": f"`{first.model}`",
                    "error %": spread([run.error for run in runs]),
                    "paper %": number(first.paper_error(), 2),
                    "seeds": str(len(runs)),
                    "calibration error %": spread(
                        [run.evaluation.calibration_error for run in runs], 1
                    ),
                    "minutes": spread([run.minutes for run in runs], 1),
                    "preset": f"`{first.preset}`",
                }
            )
    return table_of("Errors", rows)


def runs_table(runs: Sequence[StoredRun]) -> Table:
    """One row per recipe, without the evaluators of the studies. The error of one run has its
    interval, that of several their standard deviation."""
    compared = [run for run in runs if not run.model.endswith("_evaluator")]
    same_length = len({run.epochs for run in compared}) == 1
    rows = []
    for group in by_recipe(compared):
        errors = [run.error for run in group]
        rows.append(
            {
                "model": f"`{group[0].model}`",
                "options": options(group[0], compared),
                "epochs": NOTHING if same_length else str(group[0].epochs),
                "seeds": str(len(group)),
                "error %": spread(errors) if errors[1:] else with_interval(group[0].evaluation),
                "top-5 error %": mean([run.evaluation.top5_error for run in group], 2),
                "training error %": mean([run.training_error for run in group], 2),
            }
        )
    return without_empty_columns(table_of("Runs", rows))


def verdict(results: Results) -> Table:
    """What was found of the maps of models trained by a preset's recipe."""
    rows = []
    shown = [metric for metric in METRICS if metric[0] in SHOWN]
    for runs, studies in studied(run for group in _by_preset(results) for run in group):
        first = runs[0]
        if verdicts(studies) == NOTHING:
            continue
        rows.append(
            {
                "data set": title(data_set(first.data)),
                "model": f"`{first.model}`",
                "options": named_options(first, OTHER_FORM),
                "seeds": str(len(runs)),
                ANOTHER: mean([cost(study) for study in studies], 1),
                **means(shown, studies),
                "map is": verdicts(studies),
                "preset": f"`{first.preset}`",
            }
        )
    return without_empty_columns(table_of("Maps", rows))


def definitions(runs: Sequence[StoredRun]) -> Table:
    """How much two choices matter: the boundary of high frequencies, and the steps of IG."""
    rows = []
    for run in runs:
        study = run.study
        if study is None or "high>4" not in study.stability:
            continue
        gap = study.faithfulness["integrated_gradients"].completeness_gap
        rows.append(
            {
                "model": f"`{run.model}`",
                "data set": title(data_set(run.data)),
                "score %, r >= 4": study.stability["high-4"].score[PRIMARY_TAU].format(),
                "score %, r > 4": study.stability["high>4"].score[PRIMARY_TAU].format(),
                "completeness gap %": number(gap, 1, 100),
            }
        )
    return table_of("Definitions", rows)


def speed(results: Results) -> Table:
    """Throughput: the columns of general interest."""
    shown = ("what", "model", "how", "images/s", "plain, images/s", "ratio", "hardware")
    return with_columns(speed_table(results.benchmarks), shown)


def boxes(results: Results) -> Table:
    """MaxBoxAccV2 of class activation maps, step by step to the published form, and of a mask."""
    rows = []
    for found in (row for file in results.boxes.values() for row in file["boxes"]):
        forms = {(form["class"], form["values"]): form for form in found["maps"]}
        mask = forms.get(("predicted", "the mask"), {})
        ours = forms.get(("predicted", "positive"), mask)
        theirs = forms.get(("true", "positive"), mask)
        steps = {
            "all values %": forms.get(("predicted", "all"), {}).get("max_box_acc"),
            "positive values %": ours["max_box_acc"],
            "of the true class %": None if mask else theirs["max_box_acc"],
            "any component %": theirs["max_box_acc_any"],
        }
        rows.append(
            {
                "network": BOXES[found["model"]],
                "error %": number(found["error"], 1),
                **{name: number(value, 1, 100) for name, value in steps.items()},
            }
        )
    return table_of("Boxes", rows)


def paper_errors(results: Results) -> Table:
    """The paper's Table 1."""
    columns = {
        "cifar10": "CIFAR-10",
        "cifar100": "CIFAR-100",
        "cub200": "CUB-200",
        "svhn": "SVHN",
        "stl10 train": "STL-10 train",
        "stl10 test": "STL-10 test",
    }
    rows = [
        {"model": f"`{model}`"}
        | {name: number(PAPER_ERRORS.get((model, d)), 2) for d, name in columns.items()}
        for model in list_models()
    ]
    return table_of("Table 1", rows)


OF_ALL: dict[str, Callable[[Results], Table]] = {
    "errors": errors,
    "verdict": verdict,
    "speed": speed,
    "latency": lambda results: latency_table(results.benchmarks),
    "paper_errors": paper_errors,
    "boxes": boxes,
}
OF_FILES: dict[str, Callable[[Sequence[StoredRun]], Table]] = {
    "runs": runs_table,
    "maps": partial(maps_table, brief=True),
    "masks": masks_table,
    "located": located_table,
    "stability": stability_table,
    "definitions": definitions,
    "background": background_table,
}


def fill(text: str, results: Results, where: Path) -> str:
    """Return the page with every table between markers made anew."""

    def table(match: re.Match[str]) -> str:
        made = "\n".join(markdown(make_table(results, *match[1].split(), where=where)))
        return f"<!-- table: {match[1]} -->\n{made}\n<!-- end -->"

    return BLOCK.sub(table, text)


def make_table(results: Results, name: str, *files: str, where: Path = Path("README.md")) -> Table:
    """The table of this name: of all results, or of the runs in these files."""
    reject_unknown([name], [*OF_ALL, *OF_FILES], f"{where}: no table is called")
    if name in OF_ALL:
        return OF_ALL[name](results)
    reject_unknown(files, [Path(f).stem for f in results.runs], "no file of runs is called")
    return OF_FILES[name]([run for f in files for run in results.runs[f"{f}.json"].runs])


def _by_preset(results: Results) -> list[list[StoredRun]]:
    """The runs of a preset's recipe, grouped by recipe, in the order of data sets and models."""
    runs = [run for run in results.all_runs if run.model in MODELS and run.preset]
    runs.sort(key=lambda run: (run.data, list(MODELS).index(run.model), run.preset))
    return by_recipe(runs)
