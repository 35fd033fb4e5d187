"""Pieces of HTML: everything that comes from a file or a user is escaped here."""

import base64
import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from PIL import Image

from aib.figures.picture import Array
from aib.figures.table import Table


def table_html(table: Table) -> str:
    """A table that scrolls sideways on a narrow screen. Its first column holds words, and its
    second where it names a run, a model or a value."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    note = f'<p class="soft">{marked(table.note)}</p>' if table.note else ""
    kind = ' class="second"' if table.head[1] in ("run", "model", "value") else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(table.title)}">'
        f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def chart(caption: str, svg: str) -> str:
    """A chart with its caption; nothing where there is no data for it."""
    if not svg:
        return ""
    return f'<figure class="chart"><figcaption>{escape(caption)}</figcaption>{svg}</figure>'


def charts(*drawn: str) -> str:
    """Side by side where there is room."""
    kept = [piece for piece in drawn if piece]
    return f'<div class="charts">{"".join(kept)}</div>' if kept else ""


def card(value: str, what: str) -> str:
    """One figure to see first."""
    return (
        f'<div class="card"><div class="value">{escape(value)}</div>'
        f'<div class="what">{escape(what)}</div></div>'
    )


def paragraph(text: str, kind: str = "") -> str:
    """Plain words; what stands between backticks is code."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{marked(text)}</p>"


def marked(text: str) -> str:
    """Escaped, with `code` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def section(title: str, anchor: str, parts: Sequence[str]) -> str:
    """A heading with what belongs to it; nothing where there is nothing."""
    inner = "".join(parts)
    if not inner:
        return ""
    return f'<section id="{escape(anchor)}"><h2>{escape(title)}</h2>{inner}</section>'


def picture_uri(pixels: Array, *, quick: bool = False) -> str:
    """uint8 [H,W,3] as a PNG data URI: as small as can be or, a third larger, in no time."""
    buffer = io.BytesIO()
    how = {"compress_level": 1} if quick else {"optimize": True}
    Image.fromarray(pixels).save(buffer, format="PNG", **how)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def file_uri(path: Path) -> str:
    """A PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def image(uri: str, alt: str) -> str:
    """A picture that a reader who cannot see it is told about."""
    return f'<img src="{uri}" alt="{escape(alt)}">'
