"""Runs as jobs of a cluster, through submitit."""

import pickle
import signal
import sys
from types import SimpleNamespace

import pytest

import aib
from aib.sweep import cluster
from aib.sweep.cluster import Job, Request, make_executor, run_cluster
from aib.sweep.one import is_done
from aib.training.interrupt import Interrupted
from tests.helpers import SMALL_RUN, sweep_plan


def test_the_error_without_submitit_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(aib.AibError, match=r"aib\[cluster\]"):
        make_executor(tmp_path, Request(), None)


@pytest.mark.slow
def test_jobs_of_a_cluster(tmp_path):
    """Through submitit's local executor: one run succeeds, one fails with a message."""
    pytest.importorskip("submitit")
    made = sweep_plan("lr=0.1,1e30", base=SMALL_RUN)
    made.write(tmp_path / "s")
    outcomes = {}
    run_cluster(
        tmp_path / "s",
        made.runs,
        Request(partition="any", gpus=0),
        2,
        lambda run, error: outcomes.update({run.point: error}),
        SimpleNamespace(signal=None),
        poll=0.2,
    )
    assert outcomes["base"] is None and is_done(tmp_path / "s" / "base,seed=3")
    assert outcomes["lr=1e+30"].startswith("not finite at step")


def test_interrupted_can_be_pickled():
    stopped = pickle.loads(pickle.dumps(Interrupted("stopped after step 3 of 9", signal.SIGTERM)))
    assert str(stopped) == "stopped after step 3 of 9" and stopped.signal == signal.SIGTERM


def test_a_job_that_gets_sigterm_reports_that_it_was_stopped(monkeypatch, tmp_path):
    """As training does it: by its own handler, after saving."""

    def stopped(sweep, name):
        raise Interrupted("stopped after step 3 of 9", signal.SIGTERM)

    monkeypatch.setattr(cluster, "run_one", stopped)
    assert Job(tmp_path, "base,seed=3")().startswith("stopped by signal 15, after saving")
