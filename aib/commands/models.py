"""`aib models`: the table of models."""

import json as jsonlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.table import Column, Table

from aib.choices import ProfileName
from aib.commands.options import parse, wide_console
from aib.errors import AibError
from aib.figures.table import number

if TYPE_CHECKING:
    from aib.bench.counts import Row


def models(
    filter: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[FILTER]")] = "",
    /,
    num_classes: int = 10,
    image_size: int = 32,
    width: float = 1.0,
    profile: ProfileName = "paper",
    json: bool = False,
) -> None:
    """Print the models with their parameters, multiply-adds and the size of their attention map.

    Example: aib models "*aib*" --num-classes 100

    Args:
        filter: a wildcard, such as "vgg*"; without it the paper's twelve models.
        num_classes: number of classes.
        image_size: 32 or 224.
        width: scales the models' channels.
        profile: the paper's models, or those of the authors' released code.
        json: print JSON instead of a table.
    """
    from aib.bench.counts import measure, remarks
    from aib.registry import list_models

    names = list_models(filter, image_size=image_size)
    if not names:
        raise AibError(f"no model matches {filter!r} at image_size {image_size}")
    rows = [measure(name, num_classes, image_size, width, profile) for name in names]
    if json:
        found = {"models": [asdict(row) for row in rows], "remarks": remarks(rows)}
        print(jsonlib.dumps(found, indent=2))
    else:
        print_table(rows, remarks(rows))


def print_table(rows: "list[Row]", notes: list[str]) -> None:
    """Print counts and remarks as a table."""
    title = f"{rows[0].image_size} x {rows[0].image_size}, {rows[0].num_classes} classes"
    numbers = ("parameters", "paper, M", "mult-adds, G", "paper, G", "map")
    right = (Column(name, justify="right") for name in numbers)
    table = Table("model", *right, "what it is", title=title)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.parameters:,}",
            number(row.paper_parameters, 2),
            f"{row.multiply_adds / 1e9:.2f}",
            number(row.paper_multiply_adds, 2),
            "x".join(map(str, row.attention)) if row.attention else "-",
            row.summary,
        )
    console = wide_console()
    console.print(table)
    for note in notes:
        console.print(note)


COMMAND = models


def main(argv: list[str]) -> None:
    """Entry point of the command table."""
    parse(COMMAND, argv, "aib models")
