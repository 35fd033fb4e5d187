"""Sweeps that several tests read: one with a trained run, one with metrics written by hand."""

import pytest

from aib.sweep.run import run_one
from tests.helpers import SMALL_RUN, sweep_plan, write_sweep


@pytest.fixture(scope="session")
def sweep(tmp_path_factory):
    """A sweep of two runs, one of them done."""
    folder = tmp_path_factory.mktemp("sweep") / "s"
    sweep_plan("beta=0.01,0.1", base=SMALL_RUN).write(folder)
    run_one(folder, "base,seed=3")
    return folder


@pytest.fixture
def swept(tmp_path):
    """The folder of a sweep with results."""
    return write_sweep(tmp_path)
