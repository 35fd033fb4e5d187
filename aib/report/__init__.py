"""HTML pages about runs and sweeps: charts, tables, maps, how to reproduce."""

from aib.report.gather import RunContent, gather
from aib.report.run_page import run_page
from aib.report.sweep_page import sweep_page

__all__ = ["RunContent", "gather", "run_page", "sweep_page"]
