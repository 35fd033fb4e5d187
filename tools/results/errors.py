"""The page's tables of errors: beside the paper's, of other recipes, on other data, run by run."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aib.configs.preset import spread
from aib.data.specs import SPECS
from aib.figures.table import NOTHING, Table, number
from aib.paper import OTHER_FORM, paper_error
from aib.registry import MODELS
from tools.results.command import train_command, without_folders
from tools.results.markdown import markdown, without_empty_columns

Found = Mapping[str, Any]
Groups = Mapping[str, Found]

READINGS = {"raw": "numbers as they are", "matched": "matched by name"}
BESIDE = "Error, beside the paper's"
OTHERS = "Error: other forms, shorter trainings, searches"
OTHER_IMAGES = "†"


def errors(groups: Groups) -> Iterator[str]:
    """One row a recipe, its seeds averaged: first what the paper has a figure for."""
    found = [
        (runs[0], _row(name, group, runs))
        for name, group in groups.items()
        for runs in by_recipe(group["runs"])
    ]
    beside = sorted((each for each in found if _beside(each[0])), key=lambda each: _rank(each[0]))
    others = [row for run, row in found if not _beside(run)]
    head = (
        "data", "model", "options", "n", "error %", "paper %", "epochs", "minutes", "hardware",
        "runs", "from",
    )  # fmt: skip
    seeds = "n runs with different seeds; ± is their standard deviation. Minutes include compiling."
    if other_images(run for group in groups.values() for run in group["runs"]):
        seeds += (
            f" {OTHER_IMAGES} Test images drawn by each run's own seed, so ± includes that of the "
            "images; now there is one test set of shapes for all seeds."
        )
    yield from markdown(Table(BESIDE, head, tuple(row for _, row in beside), seeds))
    rest = Table(OTHERS, head, tuple(others), "" if beside else seeds)
    yield from markdown(without_empty_columns(rest))
    notes = [(name, group) for name, group in groups.items() if not _has_maps(group)]
    yield from (
        f"- {_link(name, group)}: {group['note']}" for name, group in notes if group["note"]
    )


def _row(name: str, group: Found, runs: list[Found]) -> tuple[str, ...]:
    first = runs[0]
    return (
        f"{first['data']} {OTHER_IMAGES}" if other_images(runs) else first["data"],
        f"`{first['model']}`",
        options(first, group["runs"]),
        str(len(runs)),
        spread([own_error(run) for run in runs]),
        _paper(first, first["data"]),
        f"{first['epochs']}",
        spread([run["minutes"] for run in runs], 1),
        first["environment"]["device"],
        ", ".join(run["name"] for run in runs),
        _link(name, group),
    )


def other_images(runs: Iterable[Found]) -> list[str]:
    """The runs that were measured on other test images than their data set has now."""
    return [run["name"] for run in runs if "test_images" in run]


def _beside(run: Found) -> bool:
    """Has the paper a figure for it?"""
    return _paper(run, run["data"]) != NOTHING


def _rank(run: Found) -> tuple[Any, ...]:
    return run["data"], list(MODELS).index(run["model"]), -run["epochs"]


def _has_maps(group: Found) -> bool:
    return any(run["interpret"] for run in group["runs"])


def _link(name: str, group: Found) -> str:
    return f"[{group['title']}](../results/{name})"


def elsewhere(groups: Groups) -> Iterator[str]:
    """The same models on other data: one row a recipe and a way to read the classes."""
    rows = []
    for group in groups.values():
        for alike in by_recipe(group["runs"]):
            first = alike[0]
            for found in _on_other_data(alike):
                e = found[0]
                classes: str = e["classes"]
                # The paper's way: trained on CIFAR-10, class numbers compared as they are.
                papers = first["data"] == "cifar10" and classes == "raw"
                rows.append(
                    (
                        f"{without_folders(e['data'])} {e['split']}",
                        READINGS.get(classes, classes),
                        f"`{first['model']}`, {first['data']}",
                        options(first, group["runs"]),
                        str(len(found)),
                        _images(e),
                        spread([each["top1_error"] for each in found]),
                        _paper(first, f"{e['data']} {e['split']}") if papers else NOTHING,
                    )
                )
    head = "data", "classes", "model, trained on", "options", "n", "images", "error %", "paper %"
    note = "n counts the seeds that were evaluated."
    if any(row[0].startswith("stl10") for row in rows):
        note += (
            " STL-10 shares nine classes with CIFAR-10, six of them under the same number. The "
            "paper's figures are near those of numbers compared as they are, and stand beside that "
            "reading; they are of all images, ours of those that were at hand."
        )
    yield from markdown(Table("Other data", head, tuple(rows), note))


def _on_other_data(runs: list[Found]) -> list[list[Found]]:
    """The evaluations on data that are not the runs' own: those of one kind together, one a run."""
    kinds: dict[str, dict[int, Found]] = {}
    for i, run in enumerate(runs):
        for key, e in run["evaluations"].items():
            if key.startswith(run["data"] + " "):
                continue
            # Without noise all samples are the same: how many were asked for says nothing.
            noiseless = run["model"] in MODELS and e["kl_bits"] is None
            kind = key.replace(f" {e['samples']} ", " ") if noiseless else key
            kinds.setdefault(kind, {})[i] = e
    return [list(found.values()) for found in kinds.values()]


def _images(e: Found) -> str:
    """How many, and of how many where a part of the official set was at hand."""
    spec = SPECS.get(e["data"])
    official = spec.sizes.get(e["split"]) if spec and e["classes"] == "raw" else None
    return f"{e['images']:,}" + (
        f" of {official:,}" if official and official != e["images"] else ""
    )


def every_run(groups: Groups) -> Iterator[str]:
    """What it takes to repeat each one."""
    rows = [
        (
            run["name"],
            _link(name, group),
            f"{run['seed']}" + f" {OTHER_IMAGES}" * bool(other_images([run])),
            _error(_own(run)),
            _error(run["held_out"]) if run["held_out"] else NOTHING,
            number(run.get("training_error"), 2),
            f"{_own(run)['nll']:.3f}",
            f"{_own(run)['calibration_error']:.2f}",
            number(_own(run)["kl_bits"], 1),
            _own(run)["samples"],
            f"{run['minutes']:.1f}",
            "Python {python}, torch {torch}, {device}".format(**run["environment"]),
            f"`{_command(run)}`",
        )
        for name, group in groups.items()
        for run in group["runs"]
    ]
    head = (
        "run", "from", "seed", "error % (95% interval)", "held out, error %", "training error %",
        "nll", "calibration %", "bits", "samples", "minutes", "versions", "command",
    )  # fmt: skip
    note = (
        "The training error is of the last steps, with crops, cut-out and noise. On the test "
        "images: nll is the mean of -log p of the right class, calibration the expected error of "
        "the confidence, bits the KL term, samples those averaged (attention x latent)."
    )
    yield from markdown(Table("Every run", head, tuple(rows), note))


def _command(run: Found) -> str:
    """`aib train` for a model it knows; for another, what its training was started with."""
    known = run["model"] in MODELS
    return train_command(run["recipe"]) if known else run["environment"]["command"] or NOTHING


def by_recipe(runs: Iterable[Found]) -> list[list[Found]]:
    """Runs that differ in their seed alone, together."""
    alike: dict[str, list[Found]] = {}
    for run in runs:
        recipe = {k: v for k, v in run["recipe"].items() if k != "seed"}
        alike.setdefault(repr(sorted(recipe.items())), []).append(run)
    return list(alike.values())


def options(run: Found, group: Iterable[Found]) -> str:
    """What makes the model another, and whatever else differs within the file."""
    recipes = [other["recipe"] for other in group]
    differs = {k for r in recipes for k in r if any(o.get(k) != r[k] for o in recipes)}
    hidden = {"seed", "data", "model", "epochs", "channels_last", "compile"}
    shown = (OTHER_FORM | {"profile", "dropout", "cutout", "holdout"} | differs) - hidden
    found = [f"{name} {value}" for name, value in run["recipe"].items() if name in shown]
    return ", ".join(found).replace("_", " ")


def own_error(run: Found) -> float:
    """On the test images of what it was trained on."""
    return _own(run)["top1_error"]


def _own(run: Found) -> Found:
    return run["evaluations"][run["reported"]]


def _paper(run: Found, data: str) -> str:
    """The paper trained on all the data: its figures stand beside no run that kept some aside."""
    aside = "holdout" in run["recipe"]
    return NOTHING if aside else number(paper_error(run["model"], data, run["recipe"]), 2)


def _error(e: Found) -> str:
    low, high = e["top1_interval"]
    return f"{e['top1_error']:.2f} ({low:.2f} to {high:.2f})"
