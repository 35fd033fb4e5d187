"""A table of text: one form for the terminal, CSV, Markdown and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """Words and figures, already written out."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def with_columns(table: Table, places: Sequence[int]) -> Table:
    """These columns of it alone."""
    head, *rows = (tuple(row[at] for at in places) for row in (table.head, *table.rows))
    return replace(table, head=head, rows=tuple(rows))


def number(value: float | None, digits: int, times: float = 1.0) -> str:
    """A figure, or a dash."""
    return NOTHING if value is None else f"{times * value:.{digits}f}"
