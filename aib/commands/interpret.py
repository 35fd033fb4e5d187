"""`aib interpret`: how far can the maps be trusted?"""

import json as jsonlib
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from aib.commands.bar import progress
from aib.commands.options import parse
from aib.data import Batches
from aib.environment import environment
from aib.errors import AibError
from aib.figures.picture import save_figure
from aib.figures.table import Table
from aib.files import write_json
from aib.interpret.metrics.perturb import modifications
from aib.interpret.pictures import disagreement, modified_grid
from aib.interpret.runs import RESULT, check_alike, feed_for, foreign_images, study_run
from aib.interpret.study import Plan, Study
from aib.interpret.tables import all_tables, randomisation_words, write_csv
from aib.runs import Run, open_runs
from aib.types import check_seed


def interpret(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")],
    /,
    data: str | None = None,
    split: str | None = None,
    root: str | None = None,
    foreign: str = "svhn",
    foreign_root: str | None = None,
    images: int | None = None,
    subset: int = 256,
    quick: bool = False,
    csv: Path | None = None,
    out: Path | None = None,
    batch_size: int = 256,
    workers: int = 2,
    seed: int = 0,
    device: str | None = None,
    json: bool = False,
) -> None:
    """Measure the maps of one run, or compare several on the same modified images: do they stay
    put, do they find the object, are they faithful, does the decision use them, how many bits.

    Writes interpret.json and figures/ into each run.

    Example: aib interpret runs/plain runs/aib_qt --data cifar10 --foreign svhn --csv images.csv

    Args:
        runs: folders of runs or of saved models.
        data: data set; the first run's own if not given.
        split: train, val or test; what was kept for testing if not given.
        root: folder of the data set's official files.
        foreign: data set whose images occlude; the paper takes svhn.
        foreign_root: folder of its files; --root, or the run's, if not given.
        images: take this many images at random; all if not given.
        subset: images of the expensive parts (other methods' maps, deletion and insertion).
        quick: leave the expensive parts out.
        csv: write every image's figures to this file.
        out: folder for the results instead of the runs' own.
        batch_size: images at a time.
        workers: processes that decode large images.
        seed: of the modifications and of every sample of images.
        device: cpu or cuda; whatever there is if not given.
        json: print JSON.
    """
    if not runs:
        raise AibError("name at least one run")
    check_seed(seed)
    opened = open_runs(runs, device)
    name = data or (opened[0].settings.data if opened[0].settings else None)
    feeds = [
        feed_for(
            run,
            run.labelled_images(name, split, root, like=opened[0]),
            images=images,
            batch_size=batch_size,
            workers=workers,
            seed=seed,
        )
        for run in opened
    ]
    check_alike(feeds, opened)
    own_root = opened[0].settings.root if opened[0].settings else None
    others = foreign_images(foreign, foreign_root or root or own_root, seed)
    here = not isinstance(others, str)
    known = {n: m for n, m in modifications(foreign).items() if here or m.kind != "foreign"}
    plan = Plan(known, None if isinstance(others, str) else others, subset, seed)
    notes = [] if here else [str(others)]
    counts = [feed.num_images for feed in feeds]
    work = sum(n * (len(known) + 1) + 5 * min(subset, n) * (not quick) for n in counts)
    with progress(work) as tick:
        studies = [
            study_run(run, feed, plan, str(name), notes=notes, expensive=not quick, tick=tick)
            for run, feed in zip(opened, feeds, strict=True)
        ]
    results = {run.label: s.to_dict() for run, s in zip(opened, studies, strict=True)}
    places = [_place(run, out, len(opened)) for run in opened]
    for place, result in zip(places, results.values(), strict=True):
        write_json(place / RESULT, result)
    pictures = draw(opened, feeds, studies, plan, places)
    if csv is not None:
        surveys = {run.label: s.survey.columns for run, s in zip(opened, studies, strict=True)}
        write_csv(csv, surveys, feeds[0].data.class_names)
    if json:
        print(jsonlib.dumps({"runs": results, "environment": environment()}, indent=2))
        return
    show(results, feeds[0], str(name))
    written = [str(place / RESULT) for place in places] + [str(path) for path in pictures]
    print("written: " + ", ".join(written + ([str(csv)] if csv else [])))


def draw(
    opened: list[Run], feeds: list[Batches], studies: list[Study], plan: Plan, places: list[Path]
) -> list[Path]:
    """The qualitative grid of each run, and for several where each pair disagrees."""
    made = []
    for run, feed, done, place in zip(opened, feeds, studies, places, strict=True):
        if "contrast" in done.survey.columns:
            path = place / "figures" / "modified.png"
            figure = modified_grid(
                run.model, feed, plan.modifications, foreign=plan.foreign, seed=plan.seed
            )
            save_figure(figure, path)
            made.append(path)
    sides = [
        (run.label, run.model, feed, done.survey.columns)
        for run, feed, done in zip(opened, feeds, studies, strict=True)
    ]
    for i, j in permutations(range(len(sides)), 2):
        figure = disagreement(sides[i], sides[j])
        if figure is not None:
            wrong, right = (sides[k][0].replace("/", "_") for k in (i, j))
            path = places[i] / "figures" / f"wrong_{wrong}_right_{right}.png"
            save_figure(figure, path)
            made.append(path)
    return made


def show(results: dict[str, dict[str, Any]], feed: Batches, data: str) -> None:
    """Tables for people, then what has to be said in words."""
    console = Console()
    if not console.is_terminal:
        console.width = 180  # a pipe's 80 columns would break every cell
    count, total = feed.num_images, len(feed.data)
    chosen = "" if count == total else f" (of {total:,}, chosen at random)"
    console.print(
        f"{data} {feed.data.split}: {count:,} images{chosen}", highlight=False, markup=False
    )
    for table in all_tables(results):
        console.print(rich_table(table))
        if table.note:
            console.print(table.note, highlight=False, markup=False)
    for label, result in results.items():
        console.print(f"{label}: {result['reliance']['words']}", highlight=False, markup=False)
        for sentence in [*randomisation_words(result), *result["notes"]]:
            console.print(f"{label}: {sentence}", highlight=False, markup=False)


def rich_table(table: Table) -> RichTable:
    """For the terminal."""
    made = RichTable(title=table.title)
    for i, name in enumerate(table.head):
        made.add_column(name, justify="left" if i == 0 or name in ("run", "model") else "right")
    for row in table.rows:
        made.add_row(*map(Text, row))  # a run's name may hold what rich takes for markup
    return made


def _place(run: Run, out: Path | None, count: int) -> Path:
    if out is None:
        return run.folder
    if count == 1:
        return out
    # Where two runs share a name their whole paths tell them apart; ".." is no name of a place.
    whole = run.folder.resolve()
    name = whole.name if run.label == whole.name else str(whole).strip("/").replace("/", "_")
    return out / name


def main(argv: list[str]) -> None:
    """Entry point of the command table."""
    parse(interpret, argv, "aib interpret")
