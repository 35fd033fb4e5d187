"""What the commands share."""

import pytest
from rich.table import Table

from aib.commands.arguments import wide_console


def test_names_are_printed_as_they_are(capsys: pytest.CaptureFixture) -> None:
    name = "folder:cat:image_size=32 [edited] [/x]"
    table = Table("name")
    table.add_row(name)
    for shown in (name, table):
        wide_console().print(shown)
        assert name in capsys.readouterr().out
