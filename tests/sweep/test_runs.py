"""Doing the runs: trained, measured, skipped, resumed, failed, stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import aib
from aib.cli import main
from aib.runs import open_runs, train_seconds
from aib.sweep.one import is_done, perform
from aib.sweep.plan import read_plan
from aib.training.train import train
from tests.sweep.test_plan import RESOLVED, plan

SMALL = replace(RESOLVED, data="shapes:count=64", batch_size=32, accelerator="cpu", epochs=2)
OPTIONS = (
    "--data shapes:count=64 --model tiny_aib_qt --width 0.25 --batch-size 32 --epochs 2 "
    "--accelerator cpu --seed 3"
).split()


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Two runs are planned, and one is done."""
    folder = tmp_path_factory.mktemp("sweep")
    made = plan("beta=0.01,0.1", base=SMALL)
    made.write(folder / "s")
    perform(folder / "s", "base,seed=3")
    return folder / "s"


def measured(sweep, name="base,seed=3"):
    return json.loads((sweep / name / "sweep_figures.json").read_text())


def test_a_run_is_trained_as_planned_and_measured(sweep):
    assert is_done(sweep / "base,seed=3")
    evaluation = json.loads((sweep / "base,seed=3" / "evaluation.json").read_text())
    (told,) = evaluation.values()
    figures = measured(sweep)["figures"]
    assert figures["accuracy"] == 100 - told["top1_error"] and figures["bits"] == told["kl_bits"]


def test_localisation_and_perplexity_are_those_of_the_maps(sweep):
    """Against a loop over the images: pairs of pixels, and a histogram."""
    [run] = open_runs((sweep / "base,seed=3",), "cpu")
    images = run.labelled_images()
    x = run.model.preprocessing.normalise(images.images)
    with torch.no_grad():
        attention = run.model.eval()(x, deterministic=True).attention
    maps = run.model.mean_map(attention)[0].double()
    wide = torch.nn.functional.interpolate(maps[:, None], size=(32, 32), mode="bilinear").float()
    scores = []
    for a, mask in zip(wide[:, 0], images.masks, strict=True):
        inside, outside = a[mask][:, None], a[~mask][None]
        wins = (inside > outside).double() + 0.5 * (inside == outside).double()
        scores.append(wins.mean())
    shares = torch.bincount(attention.indices.flatten()).double()
    shares = shares[shares > 0] / shares.sum()
    figures = measured(sweep)["figures"]
    assert figures["auroc"] == pytest.approx(float(torch.stack(scores).mean()), abs=1e-6)
    perplexity = float(torch.exp(-(shares * shares.log()).sum()))
    assert figures["perplexity"] == pytest.approx(perplexity, rel=1e-6)


def test_what_is_done_is_skipped(sweep):
    before = {p: p.stat().st_mtime_ns for p in (sweep / "base,seed=3").iterdir()}
    perform(sweep, "base,seed=3")
    assert before == {p: p.stat().st_mtime_ns for p in (sweep / "base,seed=3").iterdir()}


def copied(run, target, without=()):
    """The files of a run in another place."""
    target.mkdir(parents=True)
    for file in run.iterdir():
        if file.name not in without:
            (target / file.name).write_bytes(file.read_bytes())
    return target


WRITTEN = ["model.safetensors", "evaluation.json", "sweep_figures.json"]  # in this order


@pytest.mark.parametrize("first_lost", range(3))
def test_what_a_kill_left_undone_is_done(sweep, tmp_path, first_lost):
    """A run killed in training, in evaluation, or while it was measured, ends the same."""
    plan("beta=0.01", base=SMALL).write(tmp_path / "s")
    name = "base,seed=3"
    copy = copied(sweep / name, tmp_path / "s" / name, without=WRITTEN[first_lost:])
    assert not is_done(copy)
    perform(tmp_path / "s", name)
    assert is_done(copy)
    assert measured(tmp_path / "s")["figures"] == measured(sweep)["figures"]


def test_damaged_figures_are_made_again(sweep, tmp_path):
    copy = copied(sweep / "base,seed=3", tmp_path / "run")
    assert is_done(copy)
    (copy / "sweep_figures.json").write_text('{"figures": ')
    assert not is_done(copy)


def test_a_run_of_other_settings_is_refused_by_name(tmp_path, capsys):
    made = plan("beta=0.01,0.1", base=SMALL)
    made.write(tmp_path / "s")
    train(replace(SMALL, beta=0.2, epochs=1), tmp_path / "s" / "beta=0.1,seed=3")
    with pytest.raises(aib.AibError, match=r"epochs was 1 and is now 2"):
        perform(tmp_path / "s", "beta=0.1,seed=3")
    words = [*OPTIONS, "--grid", "beta=0.01,0.1", "--out", str(tmp_path / "s")]
    assert main(["sweep", *words]) == 2
    assert "beta was 0.2 and is now 0.1" in capsys.readouterr().err
    assert not (tmp_path / "s" / "base,seed=3").exists()  # nothing was begun


def test_training_time_is_summed_over_resumes(tmp_path):
    rows = [{"step": i, "seconds": s} for i, s in enumerate([1, 5, 9, 2, 4, 3.5])]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert train_seconds(tmp_path) == 9 + 4 + 3.5


# --- the command itself


def test_the_command_end_to_end(tmp_path, capsys, sweep):
    """One run is done already; the other cannot end well with its learning rate."""
    words = [*OPTIONS, "--grid", "lr=0.1,1e30", "--out", str(tmp_path / "s"), "--json"]
    plan("lr=0.1,1e30", base=SMALL).write(tmp_path / "s")
    copied(sweep / "base,seed=3", tmp_path / "s" / "base,seed=3")
    assert main(["sweep", *words]) == 1
    told = capsys.readouterr()
    assert "1 done, 0 begun, 1 to do" in told.err
    assert "failed: lr=1e+30,seed=3: not finite at step" in told.err
    results = json.loads(told.out)
    assert results["runs"]["base,seed=3"]["figures"] == measured(sweep)["figures"]
    assert "not finite" in results["failed"]["lr=1e+30,seed=3"]
    for name in ("sweep_results.json", "figures/ablation.png", "report.html"):
        assert (tmp_path / "s" / name).stat().st_size > 1000
    # The failed one is planned again; what is done is not.
    assert main(["sweep", *words[:-1], "--list"]) == 0
    assert "base,seed=3  done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to vary"),
        (["--grid", "bta=1"], "no knob 'bta'"),
        (["--grid", "beta=1", "--jobs", "0"], "--jobs must be at least 1"),
        (["--grid", "beta=1", "--seeds", "0"], "--seeds must be at least 1"),
        (["--grid", "beta=1", "--devices", "2"], "one device"),
        (["--grid", "beta=1", "--data", "nope"], "nope"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(words, said, capsys, tmp_path):
    words = ["sweep", *OPTIONS, "--out", str(tmp_path / "s"), *words]
    assert main(words) == 2
    told = capsys.readouterr()
    assert said in told.err and told.err.count("\n") == 1 and not (tmp_path / "s").exists()


def test_help_has_an_example(capsys):
    assert main(["sweep", "--help"]) == 0
    assert "Example: aib sweep shapes_tiny --quick" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_is_stopped_goes_on_to_the_same_bits(tmp_path, number):
    words = ["sweep", *OPTIONS, "--epochs", "30", "--log-every", "1", "--jobs", "2"]
    words += ["--grid", "beta=0.01,0.1"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert main([*words, "--out", str(whole)]) == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "aib", *words, "--out", str(broken)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    while len(list(broken.glob("*/metrics.jsonl"))) < 2 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    if number == signal.SIGINT:
        assert process.returncode == 130 and "the same command goes on" in err
    assert main([*words, "--out", str(broken)]) == 0
    for run in read_plan(whole).runs:
        mine, theirs = (load_file(f / run.name / "model.safetensors") for f in (whole, broken))
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
