"""The aib command: help, exit codes, errors, `aib models`."""

import json
import shlex
import subprocess
import sys

import pytest

from aib import __version__, cli
from aib.commands import models as models_command
from aib.commands.arguments import wide_console
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
        ("train --model qqqq", "no model 'qqqq'; `aib models '*'` lists all"),
        ("models --num-classes many", "many"),
        ("models resnet*", "resnet*"),
        ("models --no-such-option", "no-such-option"),
        ("report", "name a run"),
        ("explain ''", "after explain is an empty string"),  # it would be the current folder
        ("explain a.png --out ''", "after --out is an empty string"),
        ("export --run=", "after --run is an empty string"),
        ("data fetch ''", "after fetch is an empty string"),
        ("eval a --run b", "a and --run b are two runs"),
        ("export lite2_masked --backbone a:b", "no model here needs --backbone a:b"),
    ],
)
def test_a_wrong_word_is_named_with_the_right_one(capsys, tmp_path, monkeypatch, words, meant):
    monkeypatch.chdir(tmp_path)
    if "--model" in words:  # no data are loaded for a wrong model
        monkeypatch.setattr("aib.training.train.load_data", lambda *_: pytest.fail("loaded"))
    code, out, err = run(capsys, *shlex.split(words))
    assert code == 2 and out == "" and meant in err and "Traceback" not in err


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_help_of_a_command_has_an_example(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0 and f"xample: aib {command}" in " ".join(out.split())


def test_models_prints_a_table_and_json_for_programs(capsys):
    code, out, err = run(capsys, "models", "vgg_aib_qt")
    assert code == 0 and err == "" and "wrn" not in out
    for text in ("vgg_aib_qt", "20,040,801", "20.05", "3.79", "16x16", "statistics as well"):
        assert text in out
    code, out, _ = run(capsys, "models", "?*n_aib", "--json")
    answer = json.loads(out)
    [row] = answer["models"]
    assert code == 0 and row["name"] == "wrn_aib" and row["parameters"] == 65_004_500 - 8
    assert row["multiply_adds"] == pytest.approx(12.38e9, rel=1e-3)
    assert row["paper_multiply_adds"] == 39_140_000_000  # counts, as ours are
    assert any("artefact" in remark for remark in answer["remarks"])
    code, out, _ = run(capsys, "models", "lite0_m*", "--map-stride", "16")  # at 224 alone
    assert code == 0 and "224 x 224" in out and "14x14" in out and "28x28" not in out


def test_names_are_printed_as_they_are(capsys):
    name = "folder:cat:image_size=32 [edited] [/x]"  # not markup, no emoji
    wide_console().print(name)
    assert name in capsys.readouterr().out


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


def test_a_process_ends_with_all_of_its_output_and_its_exit_code():
    for word, expected in (("--help", (0, f"{cli.USAGE}\n")), ("trian", (2, ""))):
        command = [sys.executable, "-m", "aib", word]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == expected
        assert bool(done.stderr) == (expected[0] == 2)


def test_a_closed_pipe_is_no_error():
    """`aib models tiny --json | head -1`, with a pipe that is closed before anything is written."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aib", "models", "tiny", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141
