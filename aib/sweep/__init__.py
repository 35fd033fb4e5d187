"""Ablations: the same training with different settings, each run in its own folder.

`plan` lists the runs, `one` does a single run, `local` and `cluster` do all of them, `results`
collects them, `tables` and `panels` show them.
"""

from aib.sweep.grid import Grid, parse_grid, quick_grids
from aib.sweep.plan import Plan, PlannedRun, make_plan, read_plan

__all__ = ["Grid", "Plan", "PlannedRun", "make_plan", "parse_grid", "quick_grids", "read_plan"]
