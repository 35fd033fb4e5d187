"""Runs of a sweep: one trained, measured, skipped, resumed; many in parallel, with a stand-in."""

import json
import signal
import sys
from types import SimpleNamespace

import pytest
import torch

from aib.runs.files import reported
from aib.runs.run import open_runs
from aib.sweep import run as runner
from aib.sweep.run import Measurement, is_done, is_evaluated, read_measurement, run_all, run_one
from tests.helpers import SMALL_RUN, copied, sweep_plan


def measured(sweep) -> Measurement:
    return read_measurement(sweep / "base,seed=3")


def test_a_run_is_trained_as_planned_and_measured(sweep):
    assert is_done(sweep / "base,seed=3")
    evaluation = json.loads((sweep / "base,seed=3" / "evaluation.json").read_text())
    (found,) = evaluation.values()
    metrics = measured(sweep).metrics
    assert metrics.accuracy == 100 - found["top1_error"] and metrics.bits == found["kl_bits"]
    assert metrics.accuracy_interval == tuple(100 - end for end in found["top1_interval"][::-1])
    others = (metrics.nll, metrics.calibration_error)
    assert others == (found["nll"], found["calibration_error"]) and metrics.flat_maps == 0


def test_localisation_and_perplexity_are_those_of_the_maps(sweep):
    """Against a loop over the images: pairs of pixels, and a histogram."""
    [run] = open_runs((sweep / "base,seed=3",), "cpu")
    images = run.labelled(run.images())
    x = run.model.preprocessing.normalise(images.images)
    with torch.no_grad():
        attention = run.model.eval()(x, deterministic=True).attention
    maps = run.model.mean_map(attention)[0].double()
    wide = torch.nn.functional.interpolate(maps[:, None], size=(32, 32), mode="bilinear").float()
    scores = []
    for a, mask in zip(wide[:, 0], images.objects == 1, strict=True):
        inside, outside = a[mask][:, None], a[~mask][None]
        wins = (inside > outside).double() + 0.5 * (inside == outside).double()
        scores.append(wins.mean())
    shares = torch.bincount(attention.indices.flatten()).double()
    shares = shares[shares > 0] / shares.sum()
    metrics = measured(sweep).metrics
    assert metrics.auroc == pytest.approx(float(torch.stack(scores).mean()), abs=1e-6)
    perplexity = float(torch.exp(-(shares * shares.log()).sum()))
    assert metrics.perplexity == pytest.approx(perplexity, rel=1e-6)


def test_a_finished_run_is_skipped(sweep):
    before = {p: p.stat().st_mtime_ns for p in (sweep / "base,seed=3").iterdir()}
    run_one(sweep, "base,seed=3")
    assert before == {p: p.stat().st_mtime_ns for p in (sweep / "base,seed=3").iterdir()}


WRITTEN = ["model.safetensors", "evaluation.json", "sweep_metrics.json"]  # in this order


@pytest.mark.parametrize("first_lost", range(3))
def test_a_killed_run_is_completed(sweep, tmp_path, first_lost):
    """Killed in training, in evaluation or while it was measured: the result is the same."""
    sweep_plan("beta=0.01", base=SMALL_RUN).write(tmp_path / "s")
    name = "base,seed=3"
    copy = copied(sweep / name, tmp_path / "s" / name, without=WRITTEN[first_lost:])
    assert not is_done(copy)
    run_one(tmp_path / "s", name)
    assert is_done(copy)
    assert measured(tmp_path / "s").metrics == measured(sweep).metrics


def test_a_damaged_measurement_is_made_again(sweep, tmp_path):
    copy = copied(sweep / "base,seed=3", tmp_path / "run")
    assert is_done(copy) and read_measurement(copy) == measured(sweep)
    text = (copy / "sweep_metrics.json").read_text()
    (copy / "sweep_metrics.json").write_text(text[:12])
    assert not is_done(copy)
    (copy / "sweep_metrics.json").write_text(text)
    evaluation = reported(SMALL_RUN)
    assert is_done(copy) and is_evaluated(copy, evaluation)
    (copy / "model.safetensors").write_bytes(b"other weights")
    assert not is_done(copy) and not is_evaluated(copy, evaluation)


def test_with_a_holdout_held_out_images_are_measured(tmp_path):
    sweep_plan("beta=0.01", base=SMALL_RUN.updated(holdout=0.2, epochs=1)).write(tmp_path)
    run_one(tmp_path, "base,seed=3")
    assert (measured(tmp_path).split, measured(tmp_path).images) == ("val", 11)


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
        runner, "command", lambda _, run: [sys.executable, "-c", CHILD, run.name, str(tmp_path)]
    )
    return tmp_path


def test_a_failed_run_does_not_affect_the_others(stand_in):
    outcomes = {}
    run_all(
        stand_in,
        sweep_plan("beta=1,2,4,5,6").runs,
        2,
        lambda run, error: outcomes.update({run.point: error}),
        SimpleNamespace(signal=None),
    )
    assert outcomes["beta=1"] == "it went wrong"
    assert outcomes["beta=2"].startswith("ended by signal 9; its log is")
    assert [outcomes[f"beta={i}"] for i in (4, 5, 6)] == [None] * 3
    share = str(max(1, torch.get_num_threads() // 2))
    assert {p.read_text() for p in stand_in.glob("*.began")} == {share}


def test_on_a_stop_active_runs_save_and_no_more_are_started(stand_in):
    outcomes = {}

    class Stop:
        @property
        def signal(self):
            return signal.SIGINT if len(list(stand_in.glob("*.began"))) == 2 else None

    runs = sweep_plan("beta=3,3.5", seeds=(3, 4)).runs
    runs = [run for run in runs if run.point == "beta=3"] + sweep_plan("beta=7").runs
    run_all(stand_in, runs, 2, lambda run, error: outcomes.update({run.name: error}), Stop())
    assert outcomes == {"beta=3,seed=3": "stopped", "beta=3,seed=4": "stopped"}
    assert len(list(stand_in.glob("*.saved"))) == 2


def test_an_error_leaves_no_process_behind(stand_in, monkeypatch):
    started = []
    start = runner.start
    monkeypatch.setattr(runner, "start", lambda *a: started.append(start(*a)) or started[-1])

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_all(stand_in, sweep_plan("beta=3").runs, 1, None, SimpleNamespace(signal=None))
    assert started[0].poll() == -signal.SIGKILL


def test_several_gpus_are_assigned_in_turn(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    given = [runner.environment_of(slot, 3) for slot in range(3)]
    assert [e["CUDA_VISIBLE_DEVICES"] for e in given] == ["3", "5", "3"]
    assert {e["OMP_NUM_THREADS"] for e in given} == {"7"}  # the user's value is kept
