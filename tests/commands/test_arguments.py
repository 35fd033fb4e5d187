"""What the commands share."""

import pytest
from rich.table import Table

from aib.cli import main
from aib.commands.arguments import wide_console


def test_names_are_printed_as_they_are(capsys: pytest.CaptureFixture) -> None:
    name = "folder:cat:image_size=32 [edited] [/x]"
    table = Table("name")
    table.add_row(name)
    for shown in (name, table):
        wide_console().print(shown)
        assert name in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["explain", ""],
        ["explain", "a.png", "--out", ""],
        ["explain", "a.png", "--out="],
        ["view", "--run", ""],
        ["train", "--data", "shapes", "--run", ""],
        ["eval", ""],
        ["interpret", ""],
        ["report", ""],
        ["export", "", "--out", "a.onnx"],
        ["data", "show", "shapes", "--out", ""],
        ["sweep", "--out", ""],
    ],
)
def test_an_empty_string_is_an_error(words: list[str], capsys: pytest.CaptureFixture) -> None:
    """As a path it would be the current folder."""
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.endswith("is an empty string\n") and error.count("\n") == 1
