"""The parts of a page, which are macros of templates/blocks.html, and the page made of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from aib.version import __version__


def code_spans(text: str) -> Markup:
    """Escaped text with `code` as <code>."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


_templates = Environment(
    loader=PackageLoader("aib.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_templates.filters["code_spans"] = code_spans
# Each macro gives a block of the page: `blocks.text("Trained on ...", soft=True)`.
blocks: Any = _templates.get_template("blocks.html").module


@dataclass(frozen=True)
class Section:
    """A heading with its blocks. A section whose blocks are empty is not shown."""

    title: str
    anchor: str
    blocks: Sequence[Markup]


def render(
    title: str, sections: Sequence[Section], links: Sequence[tuple[str, str]] | None = None
) -> str:
    """The HTML page. `links` are (anchor, name) pairs; one per section if not given."""
    shown = [section for section in sections if "".join(section.blocks).strip()]
    return _templates.get_template("page.html").render(
        title=title,
        sections=shown,
        links=[(s.anchor, s.title) for s in shown] if links is None else links,
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
