"""Ablations: the same training under many settings, each run in its own folder.

`plan` says which runs, `one` does a run, `local` and `cluster` do them all, `results` gathers.
"""

from aib.sweep.grid import Grid, parse_grid, quick_grids
from aib.sweep.plan import Plan, Planned, make_plan, read_plan

__all__ = ["Grid", "Plan", "Planned", "make_plan", "parse_grid", "quick_grids", "read_plan"]
