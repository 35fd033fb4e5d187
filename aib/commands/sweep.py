"""`aib sweep`: ablations."""

import json as jsonlib
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aib.commands.interpret import rich_table
from aib.commands.options import parse
from aib.configs import get_preset
from aib.errors import AibError
from aib.figures.picture import save_figure
from aib.files import write_whole
from aib.report.ablation import sweep_page
from aib.runs import read_metrics
from aib.settings import Settings
from aib.sweep.cluster import Request, run_cluster
from aib.sweep.grid import parse_grid
from aib.sweep.local import Beat, Ended, run_local
from aib.sweep.one import check, is_done, read_measured
from aib.sweep.panels import draw
from aib.sweep.plan import Plan, Planned, make_plan
from aib.sweep.results import gather, shown_measures, tables, write_results
from aib.training.interrupt import SignalCatcher

LOOK = 2.0  # seconds between looks at how far the runs are


@dataclass(frozen=True)
class Options:
    """Train one preset under many settings and plot accuracy, localisation, bits and anchors in
    use against each knob. Every setting of `aib train` that decides what is trained can
    be a knob, or an option for all runs; K and Q stand for latent_dim and num_anchors. The same
    command again goes on after an interruption: what is done is skipped.

    Example: aib sweep shapes_tiny --quick --epochs 3 --jobs 2

    Example: aib sweep cifar10_fast --grid beta=1e-4,1e-3,1e-2,1e-1,1 --grid K=64,128,256,512,1024
    --grid Q=2,5,10,20,50,100 --seeds 3

    Example: aib sweep cifar10_fast --grid beta=1e-3,1e-2 --engine submitit --partition gpu
    """

    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    grid: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """KNOB=VALUE,VALUE,... Give it once for each knob; each varies alone."""
    product: bool = False
    """Cross the grids: all combinations."""
    quick: bool = False
    """Three points for each of beta, K and Q around the preset's own; --grid replaces them."""
    seeds: int = 1
    """Runs a point, with seeds from --seed on."""
    out: Path | None = None
    """Folder of the sweep; runs/sweep-PRESET if not given."""
    jobs: int | None = None
    """Runs at a time. On this machine 1 if not given, each with its share of the cores and, where
    there are several, a GPU of its own; on a cluster as many as it takes."""
    engine: Literal["local", "submitit"] = "local"
    """Processes of this machine, or jobs of a SLURM cluster: pip install '.[cluster]'. The
    command waits for them, and Ctrl-C cancels them."""
    partition: str | None = None
    """submitit: the cluster's queue."""
    timeout_min: int = 240
    """submitit: minutes a job may take. One that takes longer is queued again by submitit and
    goes on from its last checkpoint; one that the cluster ends by SIGTERM saves and is not."""
    gpus: int = 1
    """submitit: GPUs a job."""
    cpus: int = 4
    """submitit: cores a job."""
    list: bool = False
    """Show the runs and stop."""
    json: bool = False
    """Print JSON."""


def main(argv: list[str]) -> None:
    """Entry point of the command table. PRESET, if given, comes first."""
    preset = None
    if argv and not argv[0].startswith("-"):
        preset, argv = get_preset(argv[0]), argv[1:]
    default = Options(settings=preset.settings if preset else Settings())
    options: Options = parse(Options, argv, "aib sweep [PRESET]", default=default)
    if options.jobs is not None and options.jobs < 1:
        raise AibError(f"--jobs must be at least 1, not {options.jobs}")
    name = preset.name if preset else f"{options.settings.data}-{options.settings.model}"
    plan = make_plan(
        name,
        options.settings,
        [parse_grid(text) for text in options.grid],
        seeds=options.seeds,
        product=options.product,
        quick=options.quick,
    )
    folder = options.out or Path("runs") / f"sweep-{name.replace(':', '-').replace('/', '-')}"
    if options.list:
        show_plan(plan, folder)
        return
    sweep(plan, folder, options)


def show_plan(plan: Plan, folder: Path) -> None:
    """The runs and where they stand."""
    for run in plan.runs:
        print(f"{folder / run.name}  {state(folder / run.name)}")
    print(f"{len(plan.runs)} runs")


def state(folder: Path) -> str:
    """In words."""
    if is_done(folder):
        return "done"
    return "begun" if folder.exists() else "to do"


def sweep(plan: Plan, folder: Path, options: Options) -> None:
    """Do what is left, then say what was found."""
    for run in plan.runs:
        check(run, folder / run.name)
    plan.write(folder)
    left = [run for run in plan.runs if not is_done(folder / run.name)]
    begun = sum((folder / run.name).exists() for run in left)
    say(
        f"{len(plan.runs)} runs in {folder}: {len(plan.runs) - len(left)} done, "
        f"{begun} begun, {len(left) - begun} to do"
    )
    failed: dict[str, str] = {}
    with SignalCatcher() as stop, watching(folder, len(left)) as (note, beat):

        def ended(run: Planned, error: str | None) -> None:
            if error is not None:
                failed[run.name] = error
            note(run, error)
            write_results(folder, gather(plan, folder, failed))

        if options.engine == "submitit":
            request = Request(options.partition, options.timeout_min, options.gpus, options.cpus)
            run_cluster(folder, left, request, options.jobs, ended, beat, stop)
        else:
            run_local(folder, left, options.jobs or 1, ended, beat, stop)
    finish(plan, folder, failed, options.json)
    done = sum(read_measured(folder / run.name) is not None for run in plan.runs)
    if stop.signal is not None:
        say(f"stopped with {done} of {len(plan.runs)} runs done; the same command goes on")
        raise SystemExit(128 + stop.signal)
    for name, error in failed.items():
        say(f"failed: {name}: {error}")
    if failed:
        say(f"{len(failed)} of {len(plan.runs)} runs failed; the same command tries them again")
        raise SystemExit(1)


def finish(plan: Plan, folder: Path, failed: dict[str, str], json: bool) -> None:
    """sweep_results.json, the figure, the page, and the tables on the screen."""
    results = gather(plan, folder, failed)
    write_results(folder, results)
    if json:
        print(jsonlib.dumps(results, indent=2))
    if not shown_measures(results):  # no run has ended
        return
    picture, page = folder / "figures" / "ablation.png", folder / "report.html"
    save_figure(draw(results), picture)
    text = sweep_page(results)
    write_whole(page, lambda partial: partial.write_text(text, encoding="utf-8"))
    if not json:
        console = Console()
        if not console.is_terminal:
            console.width = 120
        for table in tables(results):
            console.print(rich_table(table))
        console.print(table.note, highlight=False, markup=False)
        print(f"written: {folder / 'sweep_results.json'}, {picture}, {page}")


@contextmanager
def watching(folder: Path, count: int) -> Iterator[tuple[Ended, Beat]]:
    """A line for each run that ends, and on a terminal a bar. Standard output stays free."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    ended, looked = 0, -LOOK
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=count)

        def note(run: Planned, error: str | None) -> None:
            nonlocal ended
            ended += 1
            found = read_measured(folder / run.name)
            words = f"failed: {error}"
            if error == "stopped":
                words = "stopped"
            elif found is not None:
                words = f"accuracy {found['figures']['accuracy']:.2f}%"
            bar.update(task, completed=ended)
            say(f"{ended} of {count}: {run.name}: {words}", bar.console)

        def beat(running: Sequence[Planned]) -> None:
            nonlocal looked
            if console.is_terminal and time.monotonic() > looked + LOOK:
                looked = time.monotonic()
                under_way = sum(fraction(folder / run.name, run.settings) for run in running)
                words = f"{len(running)} under way"
                bar.update(task, completed=ended + under_way, description=words)

        yield note, beat


def fraction(folder: Path, settings: Settings) -> float:
    """How much of a run's training is behind it, by whole epochs."""
    rows = read_metrics(folder)
    return 0.95 * rows[-1]["epoch"] / settings.epochs if rows else 0.0


def say(text: str, console: Console | None = None) -> None:
    """To the person who waits."""
    if console is not None and console.is_terminal:
        console.print(text, highlight=False, markup=False)
    else:
        print(text, file=sys.stderr, flush=True)
