"""`aib interpret`: measure how far the maps can be trusted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from aib.commands.arguments import print_json, rich_table, wide_console
from aib.config.validation import Precision, check_seed
from aib.errors import AibError
from aib.system.files import check_writable, write_json
from aib.system.progress import progress_bar

if TYPE_CHECKING:
    from torch import Tensor

    from aib.data import Batches
    from aib.interpret.results import Study
    from aib.interpret.studies import Plan
    from aib.models.baselines.evaluator import Evaluator
    from aib.models.classifier import Classifier
    from aib.runs.run import Run

DRAWN = ("modified.png", "modified_compared.png")


def interpret(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")] = (),
    /,
    run: Path | None = None,
    data: str | None = None,
    split: str | None = None,
    root: str | None = None,
    backbone: str | None = None,
    foreign: str = "svhn",
    images: int | None = None,
    subset: int = 256,
    quick: bool = False,
    only: tuple[str, ...] = (),
    teacher: str | None = None,
    evaluator: Path | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    batch_size: int | None = None,
    workers: int | None = None,
    seed: int = 0,
    precision: Precision = "fp32",
    device: str | None = None,
    json: bool = False,
) -> None:
    """Measure how far the maps of one run can be trusted, or compare several runs on the same
    images: stability, localisation, faithfulness, use by the decision, information.

    Writes interpret.json and figures/ into each run.

    Example: aib interpret runs/plain runs/aib_qt --data cifar10 --foreign svhn

    Example: aib interpret runs/masked --evaluator runs/evaluator

    Args:
        runs: runs, saved models, hf:owner/name of the Hub, or packaged models by name.
        run: a run, as in other commands.
        data: data set; by default the first run's own.
        split: train, val or test; by default test, or held-out images if there are none.
        root: folder of the data set's official files.
        backbone: my_module:build, for runs of a network of your own.
        foreign: data set whose images occlude.
        images: use this many images, chosen at random; all by default.
        subset: images of the expensive parts, such as localisation and post-hoc maps.
        quick: only what the verdict needs, without an evaluator.
        only: only these measures, such as `swaps transplant` (see docs/trust.md).
        teacher: as of aib train; it labels images whose classes are not the model's.
        evaluator: run of `aib train PRESET --evaluator` that judges the maps.
        out: folder for the results; by default each run's own.
        overwrite: replace an interpret.json that is there.
        batch_size: images per batch; by default 256; fewer large ones on a CPU.
        workers: processes that decode large images; by default 2, with a GPU 8.
        seed: random seed of the modifications and of the choice of images.
        precision: of the forward passes; fp16 takes less time on a GPU.
        device: cpu or cuda; by default what there is.
        json: print JSON.
    """
    check_seed(seed)
    if quick and evaluator is not None:
        raise AibError("--quick skips the parts that the evaluator needs: leave out one of them")
    runs = (*runs, *((run,) if run else ()))
    if not runs:
        raise AibError("name at least one run")
    with progress_bar(1) as tick:
        tick("opening runs and images", 0)  # before imports that take seconds
        from aib.interpret.metrics.perturb import modifications
        from aib.interpret.runs import feeds_for, foreign_images, study_run
        from aib.interpret.studies import Plan
        from aib.models.weights import RESULT
        from aib.runs.run import open_runs
        from aib.system.environment import environment

        opened = open_runs(runs, device, backbone, fold=quick)
        settings = opened[0].settings
        name = data or (settings.data if settings else None)
        own_root = settings.root if settings else None
        if name and opened[0].was_trained_on(name):
            root = root or own_root
        others: Tensor | None = None
        notes: list[str] = []
        if not only or "stability" in only:  # nothing else occludes
            found = foreign_images(foreign, root or own_root, seed)
            if isinstance(found, str):
                notes.append(found)
            else:
                others = found
        known = modifications(foreign)
        if others is None:
            known = {n: m for n, m in known.items() if m.kind != "foreign"}
        plan = Plan(known, others, subset, seed, precision=precision, only=only)
        options = (batch_size, workers, seed, teacher)
        feeds = feeds_for(opened, name, split, root, images, *options, tick)
        folders = result_folders(opened, out)
        for folder in folders:
            if (folder / RESULT).exists() and not overwrite:
                raise AibError(f"{folder} has a study: write elsewhere with --out, or --overwrite")
            check_writable(folder / RESULT)
        if evaluator is not None:
            judge = open_evaluator(evaluator, opened, feeds[0].data.split, device, backbone)
            plan = replace(plan, evaluator=judge, evaluator_name=str(evaluator))
    studies = {
        one.label: study_run(one, feed, plan, str(name), notes, expensive=not quick)
        for one, feed in zip(opened, feeds, strict=True)
    }
    for folder, study in zip(folders, studies.values(), strict=True):
        write_json(folder / RESULT, study.to_dict())
    with progress_bar(1) as tick:
        tick("drawing", 0)
        pictures = draw(
            {one.label: one.model for one in opened if studies[one.label].has_maps},
            dict(zip(studies, feeds, strict=True)),
            plan,
            dict(zip(studies, folders, strict=True)),
        )
    if json:
        results = {label: found.to_dict() for label, found in studies.items()}
        print_json({"runs": results, "environment": environment()})
        return
    show(studies, feeds[0], str(name))
    written = [str(folder / RESULT) for folder in folders] + [str(path) for path in pictures]
    print("written: " + ", ".join(written))


def open_evaluator(
    folder: Path, opened: list[Run], split: str, device: str | None, backbone: str | None
) -> Evaluator:
    """The evaluator of a run, if it fits all runs that it judges."""
    from aib.models.baselines.evaluator import Evaluator, check_evaluator
    from aib.runs.run import open_run

    judge = open_run(folder, device, backbone, fold=True)
    for run in opened:
        check_evaluator(judge.model, run.model, judge.label)
    if split == "val":
        judge.check_same_holdout(opened[0])
    assert isinstance(judge.model, Evaluator)
    return judge.model


def draw(
    models: dict[str, Classifier], feeds: dict[str, Batches], plan: Plan, folders: dict[str, Path]
) -> list[Path]:
    """Draw the maps of modified images, of each run and of all together, in place of earlier ones.

    All by the labels of the runs; `models` are those with maps.
    """
    from aib.figures.picture import save_image
    from aib.interpret.pictures import modified_grid

    made = {
        folders[label] / "figures" / "modified.png": modified_grid({"map": one}, feeds[label], plan)
        for label, one in models.items()
    }
    if len(models) > 1:
        first = next(iter(folders))
        compared = folders[first] / "figures" / "modified_compared.png"
        made[compared] = modified_grid(models, feeds[first], plan)
    for folder, name in product(folders.values(), DRAWN):
        (folder / "figures" / name).unlink(missing_ok=True)
    for path, image in made.items():
        save_image(image, path)
    return list(made)


def show(studies: dict[str, Study], feed: Batches, data: str) -> None:
    """Print the tables, then verdicts and notes."""
    from aib.interpret.tables import all_tables, randomisation_text

    console = wide_console()
    write = partial(console.print, highlight=False, markup=False)
    count, total = feed.num_images, len(feed.data)
    part = "" if count == total else f" (of {total:,}, chosen at random)"
    write(f"{data} {feed.data.split}: {count:,} images{part}")
    for table in all_tables(studies):
        console.print(rich_table(table))
        if table.note:
            write(table.note)
    for label, found in studies.items():
        for text in (found.verdict_text, randomisation_text(found), *found.notes):
            if text:
                write(f"{label}: {text}")


def result_folders(opened: list[Run], out: Path | None) -> list[Path]:
    """The runs' own folders, or `out`, with one below it for each of several runs."""
    if out is None or len(opened) == 1:
        return [out or run.output for run in opened]
    return [out / run.label.strip("/").replace("/", "_") for run in opened]


COMMAND = interpret
