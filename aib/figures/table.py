"""A table of text, for the terminal, Markdown and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """Cells of formatted text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def with_columns(table: Table, columns: Sequence[int]) -> Table:
    """The table with only these columns, by index."""
    head, *rows = (tuple(row[at] for at in columns) for row in (table.head, *table.rows))
    return replace(table, head=head, rows=tuple(rows))


def number(value: float | None, digits: int, times: float = 1.0) -> str:
    """A formatted number, or a dash for None."""
    return NOTHING if value is None else f"{times * value:.{digits}f}"
