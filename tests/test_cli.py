"""The aib command: help, exit codes, errors, `aib models`."""

import json
import subprocess
import sys

import pytest

from aib import __version__, cli
from aib.commands import models as models_command
from aib.training.interrupt import Interrupted


def run(capsys, *words):
    code = cli.main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_every_command_and_the_version_is_printed(capsys):
    code, out, err = run(capsys, "--help")
    assert code == 0 and err == "" and run(capsys, "-h") == (0, out, "")
    assert all(command in out for command in cli.COMMANDS)
    assert run(capsys) == (2, out, "")  # also without arguments
    for word in ("-V", "--version"):
        assert run(capsys, word) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("modles", "aib: no command 'modles'; did you mean models?"),
        ("train shapes_tini", "no preset 'shapes_tini'; did you mean shapes_tiny"),
        ("train --data cifr10", "no data set 'cifr10'; did you mean cifar10"),
        ("train --model vgg_aib_q", "no model 'vgg_aib_q'; did you mean vgg_aib_qt"),
        ("train --epoch 3", "--epochs"),
        ("data lits", "no command 'lits'; did you mean list?"),
        ("qqqq", "no command 'qqqq'; `aib --help` lists all"),
        ("train qqqq", "no preset 'qqqq'; `aib train --list` lists all"),
        ("train --data qqqq", "no data set 'qqqq'; `aib data list` lists all"),
        ("train --model qqqq", "no model 'qqqq'; `aib models '*'` lists all"),
        ("models --num-classes many", "many"),
        ("models --num-classes 1", "not 1"),
        ("models --image-size 33", "33"),
        ("models --width -1", "-1"),
        ("models --profile mine", "mine"),
        ("models resnet*", "resnet*"),
        ("models --no-such-option", "no-such-option"),
        ("report", "name a run"),
    ],
)
def test_a_wrong_word_is_named_with_the_right_one_and_without_a_traceback(
    capsys, tmp_path, monkeypatch, words, meant
):
    monkeypatch.chdir(tmp_path)
    if "--model" in words:  # no data are loaded for a wrong model
        monkeypatch.setattr("aib.training.train.load_data", lambda *_: pytest.fail("loaded"))
    code, out, err = run(capsys, *words.split())
    assert code == 2 and out == "" and meant in err and "Traceback" not in err


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_help_of_a_command_has_an_example(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0 and f"xample: aib {command}" in " ".join(out.split())


@pytest.mark.parametrize(
    "words", [*([name] for name in cli.COMMANDS if name != "data"), ["data", "show"]]
)
def test_the_help_of_each_option_is_one_paragraph(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "400")  # wide enough for every text to fit into one line
    _, out, _ = run(capsys, *words, "--help")
    framed = out.replace("│", " ").splitlines()
    lines = [line.strip() for line in framed if line.startswith(("  -", "   "))]
    lines = [line for line in lines if line.strip("-")]
    alone = [line.startswith("-") and "  " not in line for line in lines]  # its text comes next
    assert len(lines) > 2
    texts = zip(alone, lines[1:], strict=False)
    assert [line for before, line in texts if not before and not line.startswith("-")] == []


def test_models_prints_a_table(capsys):
    code, out, err = run(capsys, "models", "vgg_a*")
    assert code == 0 and err == ""
    for text in ("vgg_aib_qt", "20,040,801", "20.05", "3.79", "16x16", "running statistics"):
        assert text in out
    assert "wrn" not in out and "vgg_gap" not in out


def test_models_prints_json_for_programs(capsys):
    code, out, _ = run(capsys, "models", "--json")
    answer = json.loads(out)
    rows = {row["name"]: row for row in answer["models"]}
    assert code == 0 and len(rows) == 12
    assert rows["wrn_aib"]["parameters"] == 65_004_500 - 8
    assert rows["wrn_aib"]["multiply_adds"] == pytest.approx(12.38e9, rel=1e-3)
    assert rows["wrn_aib"]["paper_multiply_adds"] == 39_140_000_000  # counts, as ours are
    assert rows["wrn_aib"]["paper_parameters"] == 65_000_000
    assert rows["wrn_aib"]["attention"] == [16, 16]
    assert rows["vgg"]["attention"] is None and rows["vgg"]["paper_parameters"] is None
    assert any("artefact" in remark for remark in answer["remarks"])


def test_one_image_at_a_time_is_too_few_for_batch_norm(capsys, tmp_path):
    words = "train --data shapes:count=8 --model tiny_aib_masked --head-norm --accelerator cpu"
    parts = ["--batch-size", "4", "--accumulate", "4", "--out", str(tmp_path / "run")]
    assert cli.main([*words.split(), *parts]) == 2
    assert "BatchNorm needs two images at a time or more" in capsys.readouterr().err


def test_debug_shows_where_an_error_came_from(capsys):
    code, _, err = run(capsys, "models", "resnet*", "--debug")
    assert code == 2 and "Traceback" in err and "no model matches 'resnet*'" in err


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ZeroDivisionError("oops"), (1, "", "aib models: ZeroDivisionError: oops\n")),
        (KeyboardInterrupt(), (130, "", "aib models: interrupted\n")),
        (Interrupted("stopped after step 3", 15), (143, "", "aib models: stopped after step 3\n")),
    ],
)
def test_a_programming_error_and_an_interrupt_are_one_line(capsys, monkeypatch, error, answer):
    def broken(argv):
        raise error

    monkeypatch.setattr(models_command, "main", broken, raising=False)
    assert run(capsys, "models") == answer


def test_a_closed_pipe_is_no_error():
    """`aib models --json | head -1`, with a pipe that is closed before anything is written."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aib", "models", "vgg", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141
