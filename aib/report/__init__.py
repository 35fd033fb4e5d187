"""One HTML page of a run or of several: curves, tables, maps, how to reproduce."""

from aib.report.calibration import Reliability, reliability
from aib.report.gather import Material, gather
from aib.report.page import page

__all__ = ["Material", "Reliability", "gather", "page", "reliability"]
