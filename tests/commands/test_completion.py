"""Shell completion: what is proposed after the words so far, and the scripts that ask for it."""

import shutil
import sys
from pathlib import Path

import pytest

from aib import cli
from aib.commands.completion import SCRIPTS, complete
from aib.config.presets import PRESETS
from tests.helpers import run_process


def proposed(line):
    return complete(line.split(" ")[1:], list(cli.COMMANDS))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("aib tr", ["train"]),
        ("aib train --ep", ["--epochs"]),
        ("aib train shapes_tiny --no-a", ["--no-augment"]),
        ("aib train --optimizer ", ["sgd", "adamw"]),
        ("aib train --propose t", ["twice"]),  # an option of the model, Literal | None
        ("aib sweep --loggers ", ["tensorboard", "wandb"]),  # a tuple of Literal
        ("aib data ", ["list", "fetch", "verify", "show"]),
        ("aib data fetch --r", ["--root"]),
        ("aib bench train --compile ", ["True", "False"]),
        ("aib explain --method gra", ["gradcam"]),
        ("aib explain pho", []),  # the shell then proposes files
        ("aib nothing ", []),
        ("aib data nothing ", []),
    ],
)
def test_what_may_come_next(line, words):
    assert proposed(line) == words


def test_commands_come_first_and_presets_after_train():
    assert proposed("aib ")[: len(cli.COMMANDS)] == list(cli.COMMANDS)
    assert proposed("aib train ")[: len(PRESETS)] == list(PRESETS)
    assert not set(PRESETS) & set(proposed("aib train shapes_tiny "))


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_options_of_every_command_are_those_of_its_help(capsys, command):
    for sub in {"data": ["list", "show"], "bench": ["train", "data"]}.get(command, [""]):
        words = [command, sub] if sub else [command]
        assert cli.main([*words, "--help"]) == 0
        text = capsys.readouterr().out
        options = complete([*words, "--"], list(cli.COMMANDS))
        assert len(options) > 1
        assert [option for option in options if option not in text] == []


def test_an_unknown_shell_is_an_error(capsys):
    assert cli.main(["--print-completion", "bsh"]) == 2
    assert "did you mean bash" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script():
    line = f"""
aib() {{ {sys.executable} -m aib "$@"; }}
{SCRIPTS["bash"]}
COMP_WORDS=(aib train shapes_t) COMP_CWORD=2
_aib
echo "${{COMPREPLY[*]}}"
"""
    assert run_process("bash", "-c", line, cwd=Path()) == "shapes_tiny\n"
