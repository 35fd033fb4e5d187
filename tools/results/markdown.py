"""Tables as Markdown, and the headings of a page as links."""

import re
from collections.abc import Iterable, Iterator

from aib.figures.table import Table


def markdown(table: Table) -> Iterator[str]:
    """The lines of a table."""
    yield "| " + " | ".join(table.head) + " |"
    yield "|" + "---|" * len(table.head)
    for row in table.rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def section(table: Table, level: str = "##") -> Iterator[str]:
    """A table with its heading and its note; nothing where it has no rows."""
    if table.rows:
        yield f"\n{level} {table.title}\n"
        yield from markdown(table)
        yield f"\n{table.note}" if table.note else ""


def contents(lines: Iterable[str]) -> Iterator[str]:
    """A link to each heading of the second level, with the anchor that GitHub gives it."""
    for title in re.findall(r"^## (.+)$", "\n".join(lines), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        yield f"- [{title}](#{anchor})"
