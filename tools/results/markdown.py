"""Tables as Markdown, and the headings of a page as links."""

import re
from collections.abc import Iterable, Iterator

from aib.figures.table import NOTHING, Table, with_columns


def markdown(table: Table, level: str = "##") -> Iterator[str]:
    """The lines of a table below its heading; none where it has no rows."""
    if not table.rows:
        return
    yield f"\n{level} {table.title}\n"
    yield "| " + " | ".join(table.head) + " |"
    yield "|" + "---|" * len(table.head)
    for row in table.rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield f"\n{table.note}" if table.note else ""


def without_empty_columns(table: Table) -> Table:
    """Columns that say nothing in any row are left out."""
    places = range(len(table.head))
    return with_columns(
        table, [at for at in places if any(row[at] != NOTHING for row in table.rows)]
    )


def contents(lines: Iterable[str]) -> Iterator[str]:
    """A link to each heading of the second level, as GitHub names them."""
    for title in re.findall(r"^## (.+)$", "\n".join(lines), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        yield f"- [{title}](#{anchor})"
