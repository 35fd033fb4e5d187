"""A table of text, for the terminal, Markdown and HTML."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """Cells of formatted text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def table_of(title: str, rows: Iterable[dict[str, str]], note: str = "") -> Table:
    """A table from rows that map each column's name to its cell."""
    rows = list(rows)
    head = tuple(rows[0]) if rows else ()
    return Table(title, head, tuple(tuple(row.values()) for row in rows), note)


def with_columns(table: Table, columns: Sequence[str]) -> Table:
    """The table with only these of its columns."""
    at = [i for i, name in enumerate(table.head) if name in columns]
    head, *rows = (tuple(row[i] for i in at) for row in (table.head, *table.rows))
    return replace(table, head=head, rows=tuple(rows))


def without(table: Table, column: str) -> Table:
    """The table without the column of this name."""
    return with_columns(table, [name for name in table.head if name != column])


def without_empty_columns(table: Table) -> Table:
    """The table without the columns that have no value in any row; no rows if none has one."""
    columns = zip(table.head, *table.rows, strict=True)
    filled = [name for name, *cells in columns if {*cells} - {NOTHING, ""}]
    return with_columns(table, filled) if filled else replace(table, head=(), rows=())


def number(value: float | None, digits: int, times: float = 1.0) -> str:
    """A formatted number, or a dash for None."""
    return NOTHING if value is None else f"{times * value:.{digits}f}"
