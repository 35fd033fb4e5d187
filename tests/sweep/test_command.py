"""`aib sweep`."""

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

from aib.cli import main
from aib.commands.sweep import finish
from aib.sweep.grid import parse_grid
from aib.sweep.plan import read_plan
from aib.sweep.results import SweepResults
from aib.sweep.run import read_measurement
from aib.system.files import locked
from aib.training.train import train
from tests.helpers import SMALL_RUN, copied, sweep_plan, write_measurement

OPTIONS = (
    "--data shapes:count=64 --model tiny_aib_qt --width 0.25 --batch-size 32 --epochs 2 "
    "--accelerator cpu --seed 3"
).split()


def test_the_command_end_to_end(tmp_path, capsys, sweep):
    """One run is done already; the other fails because of its learning rate."""
    words = [*OPTIONS, "--grid", "lr=0.1,1e30", "--out", str(tmp_path / "s"), "--json"]
    sweep_plan("lr=0.1,1e30", base=SMALL_RUN).write(tmp_path / "s")
    copied(sweep / "base,seed=3", tmp_path / "s" / "base,seed=3")
    assert main(["sweep", *words]) == 1
    printed = capsys.readouterr()
    assert "1 done, 0 started, 1 to do" in printed.err
    assert "failed: lr=1e+30,seed=3: not finite at step" in printed.err
    results = SweepResults.from_dict(json.loads(printed.out), tmp_path)
    run = read_measurement(sweep / "base,seed=3")
    assert results.runs["base,seed=3"].metrics == run.metrics
    assert "not finite" in results.failed["lr=1e+30,seed=3"]
    for name in ("sweep_results.json", "figures/ablation.png", "report.html"):
        assert (tmp_path / "s" / name).stat().st_size > 1000
    # The failed run will be repeated; the finished one will not.
    assert main(["sweep", *words[:-1], "--list"]) == 0
    assert "base,seed=3  done" in capsys.readouterr().out
    assert main(["sweep", *words, "--list"]) == 0
    states = json.loads(capsys.readouterr().out)
    assert states[str(tmp_path / "s" / "base,seed=3")] == "done" and len(states) == 2


def test_results_are_shown_of_a_folder_whose_name_is_no_text(tmp_path):
    """The bytes of a folder's name are in the name of the preset, and in a grid of data."""
    data = "folder:caf\udce9"
    plan = replace(sweep_plan("beta=0.01"), preset=data, grids=(parse_grid(f"data=shapes,{data}"),))
    write_measurement(tmp_path, "data=folder%3Acaf%E9,seed=3", 11)
    finish(plan, tmp_path, {}, json=False)
    assert "caf\\udce9" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "figures" / "ablation.png").is_file()


def test_a_second_sweep_does_not_replace_the_plan_of_one_that_is_running(tmp_path, capsys):
    plan = sweep_plan("beta=0.01,0.1", base=SMALL_RUN)
    plan.write(tmp_path / "s")
    words = [*OPTIONS, "--grid", "Q=2,5", "--out", str(tmp_path / "s")]
    with locked(tmp_path / "s" / "sweep.lock", "busy"):
        assert main(["sweep", *words]) == 2
    assert "another sweep is running in" in capsys.readouterr().err
    assert read_plan(tmp_path / "s").grids == plan.grids


def test_a_file_is_no_folder_for_a_sweep(tmp_path, capsys):
    (tmp_path / "s").write_text("years of work")
    assert main(["sweep", *OPTIONS, "--grid", "beta=1", "--out", str(tmp_path / "s")]) == 2
    assert "s exists and is not a sweep; choose another --out" in capsys.readouterr().err


def test_no_run_is_started_if_another_has_other_settings(tmp_path, capsys):
    sweep_plan("beta=0.01,0.1", base=SMALL_RUN).write(tmp_path / "s")
    train(replace(SMALL_RUN, beta=0.2, epochs=1), tmp_path / "s" / "beta=0.1,seed=3")
    words = [*OPTIONS, "--grid", "beta=0.01,0.1", "--out", str(tmp_path / "s")]
    assert main(["sweep", *words]) == 2
    assert "beta was 0.2 and is now 0.1" in capsys.readouterr().err
    assert not (tmp_path / "s" / "base,seed=3").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to vary"),
        (["--grid", "beta=1", "--jobs", "0"], "jobs must be an integer of at least 1, not 0"),
        (["--grid", "beta=1", "--seeds", "0"], "seeds must be an integer of at least 1, not 0"),
        (["--grid", "beta=1", "--devices", "2"], "one device"),
        (["--grid", "beta=1", "--data", "nope"], "nope"),
    ],
)
def test_a_wrong_option_is_an_error_of_one_line(options, message, capsys, tmp_path):
    assert main(["sweep", *OPTIONS, "--out", str(tmp_path / "s"), *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and not (tmp_path / "s").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_sweep_resumes_to_the_same_weights(tmp_path, number):
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
        assert process.returncode == 130 and "repeat the command to resume" in err
    assert main([*words, "--out", str(broken)]) == 0
    for run in read_plan(whole).runs:
        mine, theirs = (load_file(f / run.name / "model.safetensors") for f in (whole, broken))
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
