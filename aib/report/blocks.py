"""The parts of a page, and the page made of them by templates/page.html."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from aib.figures.table import Table
from aib.report.glossary import meaning, used_terms
from aib.version import __version__


@dataclass(frozen=True)
class Text:
    """A paragraph; text between backticks is shown as code."""

    kind: ClassVar[str] = "text"
    text: str
    soft: bool = False


@dataclass(frozen=True)
class Cards:
    """The most important numbers: (value, what it is) pairs."""

    kind: ClassVar[str] = "cards"
    cards: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Verdict:
    """What the map is worth; the verdict's name chooses the colour."""

    kind: ClassVar[str] = "verdict"
    verdict: str
    text: str


@dataclass(frozen=True)
class TableBlock:
    """A table, with its title as a heading or without."""

    kind: ClassVar[str] = "table"
    table: Table
    heading: bool = False


@dataclass(frozen=True)
class Details:
    """A table that opens on a click."""

    kind: ClassVar[str] = "details"
    summary: str
    table: Table


@dataclass(frozen=True)
class Chart:
    """One chart, as an <svg> element."""

    caption: str
    svg: str


@dataclass(frozen=True)
class Charts:
    """Charts side by side where there is room."""

    kind: ClassVar[str] = "charts"
    charts: Sequence[Chart]


@dataclass(frozen=True)
class WideChart:
    """A chart of several columns, which scrolls sideways on a narrow screen."""

    kind: ClassVar[str] = "wide chart"
    svg: str
    columns: int


@dataclass(frozen=True)
class GalleryItem:
    """One image: its class, the prediction, and pictures as (what it shows, data URI) pairs."""

    truth: str
    prediction: str
    probability: float
    tiles: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Gallery:
    """Images with their maps."""

    kind: ClassVar[str] = "gallery"
    items: Sequence[GalleryItem]


@dataclass(frozen=True)
class Picture:
    """A large picture with its caption."""

    kind: ClassVar[str] = "picture"
    caption: str
    uri: str


@dataclass(frozen=True)
class Code:
    """Commands, line by line."""

    kind: ClassVar[str] = "code"
    text: str


Block = (
    Text | Cards | Verdict | TableBlock | Details | Charts | WideChart | Gallery | Picture | Code
)


@dataclass(frozen=True)
class Section:
    """A heading with its blocks. A section without blocks is not shown."""

    title: str
    anchor: str
    blocks: Sequence[Block]


def render(
    title: str, sections: Sequence[Section], links: Sequence[tuple[str, str]] | None = None
) -> str:
    """The HTML page. `links` are (anchor, name) pairs; one per section if not given."""
    shown = [section for section in sections if section.blocks]
    environment = Environment(
        loader=PackageLoader("aib.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"code_spans": code_spans, "meaning": meaning}
    return environment.get_template("page.html").render(
        title=title,
        sections=shown,
        terms=used_terms(_names(shown)),
        links=[(s.anchor, s.title) for s in shown] if links is None else links,
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _names(sections: Sequence[Section]) -> list[str]:
    """Names of columns and cards."""
    blocks = [block for section in sections for block in section.blocks]
    columns = [n for b in blocks if isinstance(b, TableBlock | Details) for n in b.table.head]
    return columns + [what for b in blocks if isinstance(b, Cards) for _, what in b.cards]


def code_spans(text: str) -> Markup:
    """Escaped text with `code` as <code>."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
