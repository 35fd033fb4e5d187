"""`aib sweep`: ablation studies."""

import itertools
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from aib.commands.arguments import (
    parse,
    print_json,
    rich_table,
    run_name,
    take_preset,
    wide_console,
)
from aib.config.settings import Settings
from aib.config.validation import Count, check
from aib.errors import counted
from aib.system.files import locked, write_text
from aib.system.progress import progress_bar

if TYPE_CHECKING:
    from aib.sweep.plan import Plan, PlannedRun


@dataclass(frozen=True)
class Options:
    """Train one preset with different settings and plot accuracy, localisation, bits and anchors
    in use against each knob. Every setting of `aib train` that decides what is trained and has one
    value can be a knob, or an option for all runs; K and Q stand for latent_dim and num_anchors.
    Repeat the command to resume after an interruption: finished runs are skipped.

    Example: aib sweep shapes_tiny --quick --epochs 3 --jobs 2

    Example: aib sweep cifar10_fast --grid beta=1e-4,1e-3,1e-2,1e-1,1 --grid K=64,128,256,512,1024
    --grid Q=2,5,10,20,50,100 --seeds 3
    """

    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    grid: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """KNOB=VALUE,VALUE,... Repeat the option for more knobs; each is varied alone."""
    product: bool = False
    """Run all combinations of the grids."""
    quick: bool = False
    """Three values each of beta, K and Q around the preset's own; --grid replaces them."""
    seeds: int = 1
    """Runs per point, with consecutive seeds from --seed on."""
    out: Path | None = None
    """Folder of the sweep; runs/sweep-PRESET if not given."""
    jobs: int = 1
    """Number of parallel runs; each gets a share of the cores, and one of several GPUs."""
    list: bool = False
    """List the runs and stop."""
    json: bool = False
    """Print JSON."""


COMMAND = Options


def main(argv: list[str]) -> None:
    """Entry point of the command table. PRESET, if given, comes first."""
    preset, argv = take_preset(argv)
    default = Options(settings=preset.settings if preset else Settings())
    options: Options = parse(Options, argv, "aib sweep [PRESET]", default=default)
    check("jobs", options.jobs, Count)
    from aib.sweep.grid import parse_grid
    from aib.sweep.plan import LOCK, check_folder, make_plan

    name = run_name(preset, options.settings)
    plan = make_plan(
        name,
        options.settings,
        [parse_grid(text) for text in options.grid],
        seeds=options.seeds,
        product=options.product,
        quick=options.quick,
    )
    folder = options.out or Path("runs") / f"sweep-{re.sub('[:/]', '-', name)}"
    if not options.list:
        check_folder(folder)
        busy = f"another sweep is running in {folder}; wait for its end, or choose another --out"
        with locked(folder / LOCK, busy):
            sweep(plan, folder, options)
        return
    from aib.sweep.run import is_done

    states = {
        str(path): "done" if is_done(path) else "started" if path.exists() else "to do"
        for path in (folder / run.name for run in plan.runs)
    }
    if options.json:
        print_json(states)
        return
    for path, state in states.items():
        print(f"{path}  {state}")
    print(counted(len(states), "run"))


def sweep(plan: "Plan", folder: Path, options: Options) -> None:
    """Do the runs that are left, then write and print the results."""
    from aib.sweep.results import write_results
    from aib.sweep.run import check_settings, is_done, read_measurement, run_all
    from aib.training.interrupt import SignalCatcher

    for run in plan.runs:
        check_settings(run, folder / run.name)
    plan.write(folder)
    left = [run for run in plan.runs if not is_done(folder / run.name)]
    started = sum((folder / run.name).exists() for run in left)
    message(
        f"{counted(len(plan.runs), 'run')} in {folder}: {len(plan.runs) - len(left)} done, "
        f"{started} started, {len(left) - started} to do"
    )
    failed: dict[str, str] = {}
    ended = itertools.count(1)
    with SignalCatcher() as stop, progress_bar(len(left), transient=False) as tick:

        def on_end(run: "PlannedRun", error: str | None) -> None:
            found = read_measurement(folder / run.name)
            outcome = f"accuracy {found.metrics.accuracy:.2f}%" if found else "not measured"
            if error is not None:
                failed[run.name] = error
                outcome = error if error == "stopped" else f"failed: {error}"
            message(f"{next(ended)} of {len(left)}: {run.name}: {outcome}")
            tick("runs", 1)
            write_results(plan, folder, failed)

        run_all(folder, left, options.jobs, on_end, stop)
    finish(plan, folder, failed, options.json)
    done = sum(read_measurement(folder / run.name) is not None for run in plan.runs)
    if stop.signal is not None:
        message(f"stopped with {done} of {len(plan.runs)} runs done; repeat the command to resume")
        raise SystemExit(128 + stop.signal)
    for name, error in failed.items():
        message(f"failed: {name}: {error}")
    if failed:
        message(f"{len(failed)} of {len(plan.runs)} runs failed; repeat the command to retry them")
        raise SystemExit(1)


def finish(plan: "Plan", folder: Path, failed: dict[str, str], json: bool) -> None:
    """Write sweep_results.json, the plot and the page; print the tables."""
    from aib.figures.picture import save_figure
    from aib.report.sweep_page import sweep_page
    from aib.sweep.results import RESULTS, write_results
    from aib.sweep.show import draw_panels, error_bar_note, sweep_tables

    results = write_results(plan, folder, failed)
    if json:
        print_json(results.to_dict())
    if not results.finished:
        return
    picture, page = folder / "figures" / "ablation.png", folder / "report.html"
    title = f"{results.preset}: {error_bar_note(results)}"
    save_figure(draw_panels(results, results.metrics, title), picture)
    write_text(page, sweep_page(results))
    if not json:
        console = wide_console(120)
        for table in sweep_tables(results):
            console.print(rich_table(table))
        console.print(table.note, highlight=False, markup=False)
        print(f"written: {folder / RESULTS}, {picture}, {page}")


def message(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
