"""`aib sweep`: ablation studies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from aib.commands import arguments
from aib.commands.setting_flags import parse_settings, run_name
from aib.config.presets import get_preset
from aib.config.settings import Settings
from aib.errors import AibError, counted


@dataclass(frozen=True)
class Options:
    """Train a preset with different settings and seeds; print, plot and save the error over each.
    Repeat the command to resume after an interruption: finished runs are skipped.

    Example: aib sweep cifar10_fast --grid beta=1e-3,1e-2,1e-1 --grid K=64,256,1024 --seeds 3
    """

    preset: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[PRESET]")] = None
    """Its settings are the start; `aib train --list` prints all."""
    grid: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """SETTING=VALUE,VALUE,... of one setting, varied alone. K is latent_dim, Q is num_anchors."""
    seeds: int = 1
    """Runs per point, with consecutive seeds from --seed on."""
    out: Path | None = None
    """Folder of the sweep; runs/sweep-PRESET if not given."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print JSON."""


def main(argv: list[str]) -> None:
    """Run the command."""
    o, given = parse_settings(Options, argv, "aib sweep")
    from aib.sweep import parse_grid, plan, sweep, tables
    from aib.training.progress import make_reporter

    preset = get_preset(o.preset) if o.preset else None
    settings = (preset.settings if preset else Settings()).updated(**given)
    runs = plan(settings, [parse_grid(text) for text in o.grid], o.seeds)
    folder = o.out or Path("runs") / f"sweep-{run_name(preset, settings)}"
    rows, failed = sweep(runs, folder, make_reporter)
    if o.json:
        arguments.print_json(rows)
    for table in [] if o.json else tables(rows):
        arguments.wide_console().print(arguments.rich_table(table), table.note)
    if failed:
        raise AibError(f"{counted(len(failed), 'run')} failed; repeat the command to try again")
