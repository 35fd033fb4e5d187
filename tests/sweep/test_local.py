"""Parallel runs on this machine, with a stand-in for the training."""

import signal
import sys
from types import SimpleNamespace

import pytest

from aib.sweep import local
from tests.helpers import sweep_plan

CHILD = """
import os, pathlib, sys, time
name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
(folder / (name + ".began")).write_text(os.environ.get("OMP_NUM_THREADS", ""))
if name.startswith("beta=1,"):
    print("progress\\nit went wrong"); sys.exit(2)
if name.startswith("beta=2,"):
    os.kill(os.getpid(), 9)
if name.startswith("beta=3,"):
    sys.stdin.read()  # until the sweep closes it
    (folder / (name + ".saved")).touch(); sys.exit(143)
"""


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(
        local, "command", lambda _, run: [sys.executable, "-c", CHILD, run.name, str(tmp_path)]
    )
    return tmp_path


def test_a_failed_run_does_not_affect_the_others(stand_in):
    outcomes = {}
    local.run_local(
        stand_in,
        sweep_plan("beta=1,2,4,5,6").runs,
        2,
        lambda run, error: outcomes.update({run.point: error}),
        SimpleNamespace(signal=None),
    )
    assert outcomes["beta=1"] == "it went wrong"
    assert outcomes["beta=2"].startswith("ended by signal 9; its log is")
    assert [outcomes[f"beta={i}"] for i in (4, 5, 6)] == [None] * 3
    share = str(max(1, local.cores() // 2))
    assert {p.read_text() for p in stand_in.glob("*.began")} == {share}


def test_on_a_stop_active_runs_save_and_no_more_are_started(stand_in):
    outcomes = {}

    class Stop:
        @property
        def signal(self):
            return signal.SIGINT if len(list(stand_in.glob("*.began"))) == 2 else None

    runs = sweep_plan("beta=3,3.5", seeds=(3, 4)).runs
    runs = [run for run in runs if run.point == "beta=3"] + sweep_plan("beta=7").runs
    local.run_local(
        stand_in, runs, 2, lambda run, error: outcomes.update({run.name: error}), Stop()
    )
    assert outcomes == {"beta=3,seed=3": "stopped", "beta=3,seed=4": "stopped"}
    assert len(list(stand_in.glob("*.saved"))) == 2


def test_an_error_leaves_no_process_behind(stand_in, monkeypatch):
    started = []
    start = local.start
    monkeypatch.setattr(local, "start", lambda *a: started.append(start(*a)) or started[-1])

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(local.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        local.run_local(stand_in, sweep_plan("beta=3").runs, 1, None, SimpleNamespace(signal=None))
    assert started[0].poll() == -signal.SIGKILL


def test_several_gpus_are_assigned_in_turn(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    given = [local.environment_of(slot, 3) for slot in range(3)]
    assert [e["CUDA_VISIBLE_DEVICES"] for e in given] == ["3", "5", "3"]
    assert {e["OMP_NUM_THREADS"] for e in given} == {"7"}  # the user's value is kept
