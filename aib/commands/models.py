"""`aib models`: the table of models."""

import json
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from aib.bench.counts import Row, measure, remarks
from aib.commands.options import parse
from aib.errors import AibError
from aib.registry import list_models
from aib.types import ProfileName


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
    names = list_models(filter, image_size=image_size)
    if not names:
        raise AibError(f"no model matches {filter!r} at image_size {image_size}")
    rows = [measure(name, num_classes, image_size, width, profile) for name in names]
    if json:
        print_json(rows)
    else:
        print_table(rows)


def print_json(rows: list[Row]) -> None:
    """Print counts and remarks as JSON."""
    print(json.dumps({"models": [r.to_dict() for r in rows], "remarks": remarks(rows)}, indent=2))


def print_table(rows: list[Row]) -> None:
    """Print counts and remarks as a table."""
    table = Table(
        title=f"{rows[0].image_size} x {rows[0].image_size}, {rows[0].num_classes} classes"
    )
    table.add_column("model")
    for column in ("parameters", "paper", "mult-adds", "paper", "map"):
        table.add_column(column, justify="right")
    table.add_column("what it is")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.parameters:,}",
            _or_dash(row.paper_parameters, " M"),
            f"{row.multiply_adds / 1e9:.2f} G",
            _or_dash(row.paper_multiply_adds, " G"),
            "x".join(map(str, row.attention)) if row.attention else "-",
            row.summary,
        )
    console = Console()
    # A pipe's 80 columns would make the table unreadable.
    if not console.is_terminal:
        console.width = 200
    console.print(table)
    for note in remarks(rows):
        console.print(note)


def _or_dash(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.2f}{unit}"


def main(argv: list[str]) -> None:
    """Entry point of the command table."""
    parse(models, argv, "aib models")
