"""Runs that are killed, stopped, resumed, or not allowed to write."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

import aib
from aib.cli import main
from aib.data import load
from aib.files import write_whole
from aib.options import ModelOptions
from aib.runs import Run, read_metrics, read_settings
from aib.settings import Settings
from aib.training.checkpoint import load_checkpoint, save_checkpoint
from aib.training.loop import fit
from aib.training.train import train

OPTIONS = (
    "--data shapes:count=96 --model tiny_aib_qt --width 0.25 --epochs 6 --batch-size 16 "
    "--log-every 1 --checkpoint-every 0 --ema 0.9 --beta-warmup 2 --accelerator cpu "
    "--schedule cosine --revive-anchors"
).split()
SMALL = ModelOptions(width=0.25)
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
        begun = (run / "checkpoint.pt").exists()  # before the first one there is nothing to resume
        words = ["--resume", run.name] if begun else [*OPTIONS, "--out", run.name]
        process = start(*words, cwd=folder)
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
    Run.create(tmp_path / "a", model(), Settings()).save({"step": 1})
    with pytest.raises(aib.AibError, match="interrupted run; go on with `aib train --resume"):
        Run.create(tmp_path / "a", model(), Settings())


def test_a_failed_start_leaves_the_folder_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train", *OPTIONS, "--epochs", "1", "--out", "run"]
    assert main([*words, "--batch-size", "128"]) == 2
    assert "fewer than one batch" in capsys.readouterr().err
    Run(Path("run")).log({"step": 1000})  # a start may also fail later
    assert main(["train", "--resume", "run"]) == 2
    assert "run has no checkpoint.pt: there is nothing to resume" in capsys.readouterr().err
    assert main(words) == 0
    assert max(row["step"] for row in read_metrics(Path("run"))) == 6


def test_a_config_that_is_not_of_a_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"name": "of something else"}')
    with pytest.raises(aib.AibError, match="is not empty"):
        Run.create(tmp_path, model(), Settings())


def copied(run: Path, target: Path) -> Path:
    """A finished run as it was before its weights were written."""
    shutil.copytree(run, target)
    (target / "model.safetensors").unlink()
    return target


@pytest.mark.parametrize(
    ("section", "name", "value", "said"),
    [
        ("settings", "beta", 0.5, "beta 0.5 in config.json, 0.01 in checkpoint.pt"),
        ("settings", "epochs", 9, "epochs 9 in config.json, 6 in checkpoint.pt"),
        ("preprocessing", "std", [1, 1, 1], r"preprocessing.std \[1, 1, 1\] in config.json"),
        ("model", "width", 2, "model.width 2 in config.json, 0.25 in checkpoint.pt"),
    ],
)
def test_an_edited_config_is_not_resumed(
    uninterrupted: Path, tmp_path: Path, section: str, name: str, value: Any, said: str
) -> None:
    folder = copied(uninterrupted, tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    config[section][name] = value
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(aib.AibError, match=said):
        train(read_settings(folder), folder, resume=True)


def test_where_and_how_a_run_is_done_may_be_edited(uninterrupted: Path, tmp_path: Path) -> None:
    folder = copied(uninterrupted, tmp_path / "run")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"workers": 2', '"workers": 0'))
    assert read_settings(folder).workers == 0
    train(read_settings(folder), folder, resume=True)
    assert_same_weights(uninterrupted, folder)


def test_a_run_is_resumed_by_one_process_only(uninterrupted: Path, tmp_path: Path) -> None:
    folder = copied(uninterrupted, tmp_path / "run")
    before = (folder / "metrics.jsonl").read_bytes()
    with Run(folder).locked():
        process = start("--resume", "run", cwd=tmp_path)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err == "aib train: another process is training in run; wait until it has ended\n"
    assert (folder / "metrics.jsonl").read_bytes() == before
    train(read_settings(folder), folder, resume=True)  # free again


def test_a_start_where_another_has_begun_is_refused(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", model(), Settings())  # it has no checkpoint yet
    before = (run.folder / "config.json").read_bytes()
    s = Settings(data="shapes:count=96", model="tiny_aib_qt", options=SMALL, accelerator="cpu")
    with run.locked(), pytest.raises(aib.AibError, match="another process is training"):
        train(s, run.folder)
    assert (run.folder / "config.json").read_bytes() == before


SHORT = Settings(
    data="shapes:count=96",
    model="tiny_aib_qt",
    options=SMALL,
    epochs=1,
    batch_size=16,
    log_every=1,
    checkpoint_every=0,
    accelerator="cpu",
)


@pytest.mark.parametrize("method", ["save", "write_weights", "write_evaluation", "log"])
def test_a_folder_removed_during_training_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Removed just before each kind of file is written."""
    write = getattr(Run, method)

    def removed(run: Run, *arguments: Any) -> None:
        shutil.rmtree(run.folder)
        write(run, *arguments)

    monkeypatch.setattr(Run, method, removed)
    with pytest.raises(aib.AibError, match="run was removed during the run"):
        train(SHORT, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_write_into_the_folder_of_another(tmp_path: Path) -> None:
    first = Run.create(tmp_path / "run", model(), Settings())
    with first.locked():
        shutil.rmtree(first.folder)
        second = Run.create(tmp_path / "run", model(), Settings())
        with second.locked():
            second.log({"step": 1})
            with pytest.raises(aib.AibError, match="was removed during the run"):
                first.log({"step": 2})
    assert read_metrics(second.folder) == [{"step": 1}]


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

    said = f"no space left in {tmp_path}, make room there; the one written before is untouched"
    with pytest.raises(aib.AibError, match=said):
        write_whole(path, full)
    assert load_checkpoint(path)["step"] == 1
    assert list(tmp_path.iterdir()) == [path]


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@needs_full
def test_torchs_own_error_for_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    link = tmp_path / "checkpoint.pt.partial"
    link.symlink_to("/dev/full")
    said = rf"checkpoint\.pt could not be written: no space left in {tmp_path}"
    with pytest.raises(aib.AibError, match=said):
        save_checkpoint(tmp_path / "checkpoint.pt", {"weights": torch.zeros(100_000)})


@needs_full
def test_a_disk_that_fills_up_leaves_the_last_checkpoint_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, save = Run.create(tmp_path / "run", model(), SHORT), Run.save

    def fills_up(run: Run, state: dict[str, Any]) -> None:
        if state["step"] == 4:
            (run.folder / "checkpoint.pt.partial").symlink_to("/dev/full")
        save(run, state)

    data = load("shapes:count=96", "train", holdout=0)
    monkeypatch.setattr(Run, "save", fills_up)
    with pytest.raises(aib.AibError, match=f"no space left in {run.folder}"):
        fit(model(), data, SHORT, run=run)
    assert load_checkpoint(run.checkpoint)["step"] == 3
    monkeypatch.undo()
    assert fit(model(), data, SHORT, run=run, resume=True).steps == 6


@needs_full
def test_no_space_for_metrics_is_said(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", model(), Settings())
    run.metrics.symlink_to("/dev/full")
    with pytest.raises(aib.AibError, match=rf"metrics\.jsonl .*: no space left in {run.folder}"):
        run.log({"step": 1})


def test_no_space_for_weights_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.create(tmp_path / "run", model(), Settings())

    def full(*arguments: Any, **options: Any) -> None:  # what safetensors raises on a full disk
        raise SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        )

    monkeypatch.setattr("aib.pretrained.save_file", full)
    with pytest.raises(
        aib.AibError, match=rf"model\.safetensors .*: no space left in {run.folder}"
    ):
        run.write_weights(model())


def test_any_other_error_of_the_disk_keeps_its_name(tmp_path: Path) -> None:
    """A real one, for torch and for safetensors: files may have at most 10,000 bytes."""
    code = """
import resource, sys
from pathlib import Path
import aib
from aib.runs import Run
from aib.settings import Settings
net = aib.create_model("tiny_aib_qt", width=0.25)
run = Run.create(Path("run"), net, Settings())
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
for write in (lambda: run.save(net.state_dict()), lambda: run.write_weights(net)):
    try:
        write()
    except aib.AibError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "run/checkpoint.pt could not be written: File too large",
        "run/model.safetensors could not be written: File too large",
    ], done.stderr


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("ema", [None, 0.9])
def test_training_begins_only_with_room_for_what_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: Any, ema: float | None
) -> None:
    """The estimate against the files of the same run, a second checkpoint beside the first."""
    s = replace(SHORT, optimizer=optimizer, ema=ema)
    data = load("shapes:count=96", "train")
    large = aib.create_model("tiny_aib_qt")  # tensors outweigh the names in the files
    run = Run.create(tmp_path / "a", large, s)
    fitted = fit(large, data, s, run=run)
    run.write_weights(fitted.model)
    files = [run.checkpoint, run.checkpoint, run.folder / "model.safetensors", run.metrics]
    written = sum(file.stat().st_size for file in files)

    def tried(name: str, free: float) -> Run:
        usage = shutil.disk_usage(tmp_path)._replace(free=int(free))
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda path: usage)
            new = Run.create(tmp_path / name, large, s)
            fit(large, data, s, run=new)
        return new

    with pytest.raises(aib.AibError, match="no space left in .*b for this run: it writes"):
        tried("b", 0.8 * written)
    assert not (tmp_path / "b" / "checkpoint.pt").exists()
    assert tried("c", 1.2 * written).checkpoint.exists()


def forged(path: Path, target: Path, how: int, pickled: bytes | None = None) -> Path:
    """The checkpoint packed again, perhaps with another pickle."""
    with ZipFile(path) as source, ZipFile(target, "w", how) as copy:
        for name in source.namelist():
            other = pickled is not None and name.endswith("/data.pkl")
            copy.writestr(name, pickled if other else source.read(name))
    return target


def test_a_checkpoint_cannot_ask_for_more_than_its_size(tmp_path: Path) -> None:
    """Packed zeros, and a pickle of some bytes that makes torch.load allocate a gigabyte."""
    path, bomb = tmp_path / "checkpoint.pt", tmp_path / "bomb.pt"
    save_checkpoint(path, {"weights": torch.zeros(1_000_000)})
    assert load_checkpoint(forged(path, bomb, ZIP_STORED))["weights"].shape == (1_000_000,)
    forged(path, bomb, ZIP_DEFLATED)
    assert bomb.stat().st_size < 10_000
    with pytest.raises(aib.AibError, match=r"bomb\.pt cannot be read .*: it is compressed"):
        load_checkpoint(bomb)
    huge = b"\x80\x02cbuiltins\nbytearray\nJ\x00\x00\x00\x40\x85R."
    with pytest.raises(aib.AibError, match="else than tensors and numbers: builtins bytearray"):
        load_checkpoint(forged(path, bomb, ZIP_STORED, huge))


def test_a_checkpoint_larger_than_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path / "checkpoint.pt", {"weights": torch.zeros(100)})
    monkeypatch.setattr("aib.training.checkpoint.machine_memory", lambda: 1000)
    with pytest.raises(aib.AibError, match="and this machine 0.0"):
        load_checkpoint(tmp_path / "checkpoint.pt")


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
    from aib.training.train import build_model

    s = Settings(model="tiny_aib_qt", options=SMALL, init=str(uninterrupted))
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
