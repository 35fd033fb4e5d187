"""The tables inside the documentation, between `<!-- table: NAME -->` and `<!-- end -->`.

`NAME` is a function below; what follows it names files of results/ without their ending:
`<!-- table: maps cifar10_vgg cifar10_wrn -->`.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from aib.configs.preset import spread
from aib.errors import AibError
from aib.figures.table import NOTHING, Table, number, with_columns, without_empty_columns
from aib.interpret.metrics.bootstrap import Estimate
from aib.interpret.metrics.score import PRIMARY_TAU
from aib.paper import OTHER_FORM, PAPER_ERRORS
from aib.registry import MODELS, list_models
from tools.results.errors import ERROR, with_interval
from tools.results.maps import (
    ANOTHER,
    METRICS,
    background_table,
    cost,
    maps_table,
    masks_table,
    mean,
    stability_table,
    studied,
    verdicts,
)
from tools.results.markdown import markdown
from tools.results.pages import title
from tools.results.read import Results, StoredRun, by_recipe, data_set, options
from tools.results.speed import latency_table, speed_table

BLOCK = re.compile(r"^<!-- table: (.+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


def errors(results: Results) -> Table:
    """Models built as in the paper and trained by a preset's recipe: ours beside the paper's."""
    rows = []
    for runs in _by_preset(results):
        first = runs[0]
        if first.paper_error() is not None:
            rows.append(
                (
                    title(data_set(first.data)),
                    f"`{first.model}`",
                    spread([run.error for run in runs]),
                    number(first.paper_error(), 2),
                    str(len(runs)),
                    spread([run.evaluation.calibration_error for run in runs], 1),
                    spread([run.minutes for run in runs], 1),
                    f"`{first.preset}`",
                )
            )
    head = ("data set", "model", "error %", "paper %", "seeds", "calibration error %", "minutes",
            "preset")  # fmt: skip
    return Table("Errors", head, tuple(rows))


def runs(results: Results, *files: str) -> Table:
    """Every run of these files, without the evaluators of their studies."""
    compared = [run for run in _runs(results, files) if not run.model.endswith("_evaluator")]
    rows = [
        (
            f"`{run.model}`",
            options(run, compared),
            with_interval(run.evaluation),
            number(run.evaluation.top5_error, 2),
            number(run.training_error, 2),
        )
        for run in compared
    ]
    head = ("model", "options", ERROR, "top-5 error %", "training error %")
    return without_empty_columns(Table("Runs", head, tuple(rows)))


def verdict(results: Results) -> Table:
    """What was found of the maps of models trained by a preset's recipe."""
    values = {name: find for name, _, find in METRICS}
    rows = []
    for runs, studies in studied(run for group in _by_preset(results) for run in group):
        first = runs[0]
        if verdicts(studies) == NOTHING:
            continue
        rows.append(
            (
                title(data_set(first.data)),
                f"`{first.model}`",
                _form(first),
                str(len(runs)),
                mean([cost(study) for study in studies], 1),
                *(mean([values[name](s) for s in studies], 2) for name in SHOWN),
                verdicts(studies),
            )
        )
    head = ("data set", "model", "options", "seeds", ANOTHER, *SHOWN, "map is")
    return without_empty_columns(Table("Maps", head, tuple(rows)))


SHOWN = ("contrast", "insertion", "insertion, centre")


def maps(results: Results, *files: str) -> Table:
    """All recipes of these files whose maps were measured."""
    return maps_table(_runs(results, files), brief=True)


def masks(results: Results, *files: str) -> Table:
    """Masked models of these files: what their masks close, and what rounding them costs."""
    return masks_table(_runs(results, files), brief=True)


def stability(results: Results, *files: str) -> Table:
    """The paper's interpretability score of these files' runs."""
    return stability_table(_runs(results, files), brief=True)


def definitions(results: Results, *files: str) -> Table:
    """How much two choices matter: the boundary of high frequencies, and the steps of IG."""
    rows = []
    for run in _runs(results, files):
        study = run.study
        if study is None or "high>4" not in study.stability:
            continue
        scores = [study.stability[name].score[PRIMARY_TAU] for name in ("high-4", "high>4")]
        gap = study.faithfulness["integrated_gradients"].completeness_gap
        cells = (_interval(score) for score in scores)
        rows.append((f"`{run.model}`", title(data_set(run.data)), *cells, number(gap, 1, 100)))
    head = ("model", "data set", "score %, r >= 4", "score %, r > 4", "completeness gap %")
    return Table("Definitions", head, tuple(rows))


def _interval(score: Estimate) -> str:
    ends = (number(value, 1) for value in (score.value, score.low, score.high))
    return "{} ({}-{})".format(*ends)


def background(results: Results, *files: str) -> Table:
    """Where the mass of each kind of map lies."""
    return background_table(_runs(results, files), brief=True)


def speed(results: Results) -> Table:
    """Throughput: the columns of general interest."""
    table = speed_table(results.benchmarks)
    shown = ("what", "model", "how", "images/s", "plain, images/s", "ratio", "hardware")
    return with_columns(table, [table.head.index(name) for name in shown])


def latency(results: Results) -> Table:
    """Latency of one call."""
    return latency_table(results.benchmarks)


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
        (f"`{model}`", *(number(PAPER_ERRORS.get((model, data)), 2) for data in columns))
        for model in list_models()
    ]
    return Table("Table 1", ("model", *columns.values()), tuple(rows))


MAKERS = (
    errors,
    runs,
    verdict,
    maps,
    masks,
    stability,
    definitions,
    background,
    speed,
    latency,
    paper_errors,
)
TABLES: dict[str, Callable[..., Table]] = {make.__name__: make for make in MAKERS}


def fill(text: str, results: Results, where: Path) -> str:
    """Return the page with every table between markers made anew."""

    def table(match: re.Match[str]) -> str:
        name, *files = match[1].split()
        if name not in TABLES:
            raise AibError(f"{where}: no table is called '{name}'; there are {', '.join(TABLES)}")
        made = "\n".join(markdown(TABLES[name](results, *files)))
        return f"<!-- table: {match[1]} -->\n{made}\n<!-- end -->"

    return BLOCK.sub(table, text)


def _by_preset(results: Results) -> list[list[StoredRun]]:
    """The runs of a preset's recipe, grouped by recipe, in the order of data sets and models."""
    runs = [
        run
        for file in results.runs.values()
        for run in file.runs
        if run.model in MODELS and run.preset
    ]
    runs.sort(key=lambda run: (run.data, list(MODELS).index(run.model), run.preset))
    return by_recipe(runs)


def _form(run: StoredRun) -> str:
    """What makes the model another than the paper's."""
    found = [
        name if value is True else f"{name} {value}"
        for name, value in run.recipe.items()
        if name in OTHER_FORM
    ]
    return ", ".join(found).replace("_", " ")


def _runs(results: Results, files: Sequence[str]) -> list[StoredRun]:
    missing = [name for name in files if f"{name}.json" not in results.runs]
    if missing:
        raise AibError(f"no file of runs is called {missing[0]}.json")
    return [run for name in files for run in results.runs[f"{name}.json"].runs]
