"""Tables of test errors: beside the paper's, of other recipes, on other data sets, per run."""

from collections.abc import Iterable, Sequence

from aib.config.preset import spread
from aib.config.settings import setting_types
from aib.data.specs import SPECS
from aib.evaluation.error import Evaluation
from aib.figures.table import NOTHING, Table, number, table_of, without_empty_columns
from aib.models.registry import MODELS
from aib.system.files import without_folders
from tools.results.command import train_command
from tools.results.read import RunsFile, StoredRun, by_recipe, options

BESIDE = "Error beside the paper's"
OTHERS = "Error: other forms, shorter training, searches"
OTHER_DATA = "Other data"
EVERY_RUN = "Every run"
ERROR = "error % (95% interval)"
OWN_TEST_IMAGES = "†"
HELD_OUT = "‡"
CLASSES = {"raw": "numbers as they are", "matched": "matched by name"}


def error_tables(files: Sequence[RunsFile]) -> list[Table]:
    """One row per recipe, averaged over seeds: first the models that the paper has a result for."""
    models = [*MODELS]
    found = [(runs[0], _error_row(file, runs)) for file in files for runs in by_recipe(file.runs)]
    beside = [each for each in found if each[0].paper_error() is not None]
    others = [row for run, row in found if run.paper_error() is None]
    beside.sort(key=lambda each: (each[0].data, models.index(each[0].model), -each[0].epochs))
    note = "± is the standard deviation over seeds. Minutes include compilation."
    if any(run.own_test_images for file in files for run in file.runs):
        note += (
            f" {OWN_TEST_IMAGES} The test images were sampled with each run's own seed, so ± "
            "includes that of the images. Today all seeds share one test set of shapes."
        )
    if any(run.on_held_out for file in files for run in file.runs):
        note += f" {HELD_OUT} On held-out images."
    return [
        table_of(BESIDE, [row for _, row in beside], note),
        without_empty_columns(table_of(OTHERS, others, "" if beside else note)),
    ]


def _error_row(file: RunsFile, runs: Sequence[StoredRun]) -> dict[str, str]:
    first = runs[0]
    mark = f" {OWN_TEST_IMAGES}" if any(run.own_test_images for run in runs) else ""
    return {
        "data": first.data + mark,
        "model": f"`{first.model}`",
        "options": options(first, file.runs),
        "seeds": str(len(runs)),
        "error %": spread([run.error for run in runs]) + f" {HELD_OUT}" * first.on_held_out,
        "paper %": number(first.paper_error(), 2),
        "epochs": str(first.epochs),
        "minutes": spread([run.minutes for run in runs], 1),
        "hardware": first.environment["device"],
        "runs": ", ".join(run.name for run in runs),
        "file": link(file),
    }


def link(file: RunsFile) -> str:
    """To the file, from a page in docs/results/."""
    return f"[{file.title}](../../results/{file.name})"


def other_data(files: Iterable[RunsFile]) -> Table:
    """The same models on data sets they were not trained on: one row per recipe and class map."""
    rows = [
        _other_data_row(file, runs[0], found)
        for file in files
        for runs in by_recipe(file.runs)
        for found in _on_other_data(runs)
    ]
    note = ""
    if any(row["data"].startswith("stl10") for row in rows):
        note = (
            "STL-10 shares nine classes with CIFAR-10, six of them under the same number. The "
            "paper's errors are near those with the numbers compared as they are, so they stand "
            "beside that reading. They are of all images, ours of those that were available."
        )
    return table_of(OTHER_DATA, rows, note)


def _other_data_row(file: RunsFile, run: StoredRun, found: Sequence[Evaluation]) -> dict[str, str]:
    e = found[0]
    # The paper's protocol: trained on CIFAR-10, class numbers compared as they are.
    papers = run.data == "cifar10" and e.classes == "raw"
    paper = run.paper_error(f"{e.data} {e.split}") if papers else None
    return {
        "data": f"{without_folders(e.data)} {e.split}",
        "classes": CLASSES.get(e.classes, e.classes),
        "model, trained on": f"`{run.model}`, {run.data}",
        "options": options(run, file.runs),
        "seeds": str(len(found)),
        "images": _images(e),
        "error %": spread([each.top1_error for each in found]),
        "paper %": number(paper, 2),
    }


def _on_other_data(runs: Sequence[StoredRun]) -> list[list[Evaluation]]:
    """The evaluations on other data sets than the runs' own, grouped by kind, one per run."""
    kinds: dict[str, dict[int, Evaluation]] = {}
    for i, run in enumerate(runs):
        for key, e in run.evaluations.items():
            if key.startswith(run.data + " "):
                continue
            # Without noise all samples are the same, so their number makes no difference.
            noiseless = run.model in MODELS and e.kl_bits is None
            kind = key.replace(f" {e.samples} ", " ") if noiseless else key
            kinds.setdefault(kind, {})[i] = e
    return [list(found.values()) for found in kinds.values()]


def _images(e: Evaluation) -> str:
    """How many images, and of how many where only a part of the official set was available."""
    spec = SPECS.get(e.data)
    official = spec.sizes.get(e.split) if spec and e.classes == "raw" else None
    return f"{e.images:,}" + (f" of {official:,}" if official and official != e.images else "")


def every_run(files: Iterable[RunsFile]) -> Table:
    """One row per run, with the command that repeats it."""
    rows = [
        {
            "run": run.name,
            "file": link(file),
            "seed": f"{run.seed}" + f" {OWN_TEST_IMAGES}" * run.own_test_images,
            ERROR: with_interval(run.evaluation) + f" {HELD_OUT}" * run.on_held_out,
            "top-5 error %": number(run.evaluation.top5_error, 2),
            "held-out error %": with_interval(run.held_out) if run.held_out else NOTHING,
            "training error %": number(run.training_error, 2),
            "NLL": f"{run.evaluation.nll:.3f}",
            "calibration error %": f"{run.evaluation.calibration_error:.2f}",
            "KL, bits": number(run.evaluation.kl_bits, 1),
            "samples": run.evaluation.samples,
            "minutes": f"{run.minutes:.1f}",
            "versions": "Python {python}, torch {torch}, {device}".format(**run.environment),
            "command": f"`{_command(run)}`",
        }
        for file in files
        for run in file.runs
    ]
    note = (
        "All columns are of the test images, except where they say otherwise; "
        f"{HELD_OUT}: of held-out ones. The training error is that of the last logged steps, with "
        "augmentation and noise. The calibration error is the expected calibration error. "
        "Samples: attention x latent, averaged."
    )
    return table_of(EVERY_RUN, rows, note)


def _command(run: StoredRun) -> str:
    """`aib train` for a named model; for others the command that was typed.

    None with a setting that was dropped since: the results file has what was typed.
    """
    if not run.recipe.keys() <= setting_types().keys():
        return NOTHING
    known = run.model in MODELS
    return train_command(run.recipe) if known else run.environment["command"] or NOTHING


def with_interval(e: Evaluation) -> str:
    """The error, and its interval in brackets."""
    low, high = e.top1_interval
    return f"{e.top1_error:.2f} ({low:.2f} to {high:.2f})"
