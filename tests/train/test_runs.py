"""Runs that are killed, stopped, resumed, or not allowed to write."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import aib
from aib.checkpoint import load_checkpoint, save_checkpoint, write_whole
from aib.run import Run, read_metrics
from aib.settings import Settings

OPTIONS = (
    "--data shapes:count=96 --model tiny_aib_qt --width 0.25 --epochs 6 --batch-size 16 "
    "--log-every 1 --checkpoint-every 0 --ema 0.9 --beta-warmup 2 --accelerator cpu "
    "--schedule cosine --revive-anchors"
).split()
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def start(*words: str, cwd: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "aib", "train", *words],
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*words: str, cwd: Path) -> str:
    process = start(*words, cwd=cwd)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def wait_for(path: Path, process: subprocess.Popen) -> None:
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    finish(*OPTIONS, "--out", "whole", cwd=folder)
    return folder / "whole"


def assert_same_weights(a: Path, b: Path) -> None:
    mine, theirs = load_file(a / "model.safetensors"), load_file(b / "model.safetensors")
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name
    ours, checkpoint = load_checkpoint(a / "checkpoint.pt"), load_checkpoint(b / "checkpoint.pt")
    for name, value in ours["model"].items():
        assert torch.equal(value, checkpoint["model"][name]), name


def kill_and_resume(folder: Path, whole: Path, seed: int) -> None:
    """Kill -9 at a random moment, a few times over, then let it end."""
    chance, run = random.Random(seed), folder / f"killed{seed}"
    process = start(*OPTIONS, "--out", run.name, cwd=folder)
    wait_for(run / "config.json", process)
    for _ in range(2):
        time.sleep(chance.uniform(0.0, 1.5))
        process.kill()
        process.communicate()
        process = start("--resume", run.name, cwd=folder)
        # Now and then it is killed before it has begun again, which must do no harm either.
        if chance.random() < 0.7:
            wait_for(run / "checkpoint.pt", process)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert_same_weights(whole, run)
    steps = [row["step"] for row in read_metrics(run) if "total" in row]
    assert steps == list(range(1, 37))  # each step once, none lost


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_run_ends_with_the_same_bits(uninterrupted: Path, seed: int) -> None:
    kill_and_resume(uninterrupted.parent, uninterrupted, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 20))
def test_a_killed_run_ends_with_the_same_bits_more_often(uninterrupted: Path, seed: int) -> None:
    kill_and_resume(uninterrupted.parent, uninterrupted, seed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(uninterrupted: Path, number: signal.Signals) -> None:
    folder, run = uninterrupted.parent, f"stopped{number}"
    process = start(*OPTIONS, "--checkpoint-every", "1000", "--out", run, cwd=folder)
    wait_for(folder / run / "metrics.jsonl", process)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number, err
    assert f"aib train --resume {run}" in err
    assert "Traceback" not in out + err
    step = load_checkpoint(folder / run / "checkpoint.pt")["step"]
    assert f"stopped after step {step} of 36" in err
    finish("--resume", run, cwd=folder)
    assert_same_weights(uninterrupted, folder / run)


def test_a_finished_run_is_not_overwritten(uninterrupted: Path) -> None:
    before = {p.name: p.read_bytes() for p in uninterrupted.iterdir() if p.is_file()}
    process = start(*OPTIONS, "--out", "whole", cwd=uninterrupted.parent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "whole holds a finished run" in err
    assert before == {p.name: p.read_bytes() for p in uninterrupted.iterdir() if p.is_file()}


def model() -> aib.Classifier:
    return aib.create_model("tiny_aib_qt", width=0.25)


def test_an_interrupted_run_is_not_overwritten(tmp_path: Path) -> None:
    Run.create(tmp_path / "a", model(), Settings())
    with pytest.raises(aib.AibError, match="interrupted run; go on with `aib train --resume"):
        Run.create(tmp_path / "a", model(), Settings())


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(aib.AibError, match="is not empty"):
        Run.create(tmp_path, model(), Settings())
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(aib.AibError, match="is a file"):
        Run.create(tmp_path / "run", model(), Settings())


def test_a_run_of_another_configuration_is_not_resumed(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", model(), Settings(beta=0.01))
    with pytest.raises(aib.AibError, match=r"another configuration: beta 0\.01 there, 0\.5 here"):
        Run.reopen(tmp_path / "run", Settings(beta=0.5))


def test_overriding_a_setting_while_resuming_is_refused(uninterrupted: Path) -> None:
    process = start("--resume", "whole", "--lr", "7", cwd=uninterrupted.parent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "lr 0.1 there, 7.0 here" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(aib.AibError, match="cannot be made"):
        Run.create(tmp_path / "run", model(), Settings())


def test_a_folder_that_cannot_be_made_is_said() -> None:
    with pytest.raises(aib.AibError, match="the folder /proc/run cannot be made"):
        Run.create(Path("/proc/run"), model(), Settings())


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"step": 1})

    def full(partial: Path) -> None:
        partial.write_bytes(b"half a")
        raise OSError(28, "No space left on device")

    with pytest.raises(aib.AibError, match="No space left on device; the one written before"):
        write_whole(path, full)
    assert load_checkpoint(path)["step"] == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_torchs_own_error_for_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    link = tmp_path / "checkpoint.pt.partial"
    link.symlink_to("/dev/full")
    with pytest.raises(aib.AibError, match=r"checkpoint\.pt could not be written"):
        save_checkpoint(tmp_path / "checkpoint.pt", {"weights": torch.zeros(100_000)})


def test_a_checkpoint_with_code_in_it_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "owned",))

    torch.save({"schema": 1, "model": Evil()}, tmp_path / "checkpoint.pt")
    with pytest.raises(aib.AibError, match="cannot be read as a checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.pt")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 truncated"])
def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(content)
    with pytest.raises(aib.AibError, match="cannot be read as a checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.pt")


def test_a_half_written_line_of_metrics_is_forgotten(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", model(), Settings())
    for step in (1, 2, 3):
        run.log({"step": step})
    with run.metrics.open("a") as file:
        file.write('{"step": 4, "tot')
    assert [row["step"] for row in read_metrics(run.folder)] == [1, 2, 3]
    run.cut_metrics(2)
    assert run.metrics.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_a_run_loads_as_a_pretrained_model(uninterrupted: Path) -> None:
    loaded = aib.from_pretrained(uninterrupted)
    assert loaded.preprocessing.class_names[0] == "disc"
    x = loaded.preprocessing.normalise(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))
    assert loaded.explain(x).attention.shape == (1, 32, 32)


def test_init_starts_from_trained_weights(uninterrupted: Path) -> None:
    from aib.data import ImageSet, load
    from aib.train import build_model

    s = Settings(model="tiny_aib_qt", width=0.25, init=str(uninterrupted))
    started = build_model(s, load("shapes:count=96", "train"))
    want = load_file(uninterrupted / "model.safetensors")
    for name, value in started.state_dict().items():
        assert torch.equal(value, want[name])
    # For other classes the last layer starts fresh, and everything before it does not.
    fewer = ImageSet.from_tensors(torch.zeros(4, 3, 32, 32, dtype=torch.uint8), torch.arange(4))
    for name, value in build_model(s, fewer).state_dict().items():
        assert value.shape != want[name].shape or torch.equal(value, want[name]), name
    with pytest.raises(aib.AibError, match="no weights at"):
        build_model(replace(s, init="nowhere"), load("shapes:count=96", "train"))
