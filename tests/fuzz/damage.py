"""Damaged files: bytes cut off, changed, lost or added; and JSON with wrong values."""

import copy
import json
from typing import Any

from hypothesis import strategies as st


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The file after one to three kinds of damage."""
    content = whole
    for _ in range(draw(st.integers(1, 3))):
        content = draw(st.sampled_from(DAMAGES))(draw, content)
    return content


def _position(draw: st.DrawFn, content: bytes) -> int:
    """A position anywhere, or, half of the time, near the beginning, where headers are."""
    last = len(content) if draw(st.booleans()) else min(len(content), 64)
    return draw(st.integers(0, last))


def _cut(draw: st.DrawFn, content: bytes) -> bytes:
    return content[: _position(draw, content)]


def _change(draw: st.DrawFn, content: bytes) -> bytes:
    at = _position(draw, content)
    new = draw(st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(EXTREMES)))
    return content[:at] + new + content[at + len(new) :]


def _lose(draw: st.DrawFn, content: bytes) -> bytes:
    at = _position(draw, content)
    return content[:at] + content[at + draw(st.integers(1, 100)) :]


def _add(draw: st.DrawFn, content: bytes) -> bytes:
    at = _position(draw, content)
    return content[:at] + draw(st.binary(min_size=1, max_size=40)) + content[at:]


def _replace(draw: st.DrawFn, content: bytes) -> bytes:
    return draw(st.one_of(st.binary(max_size=200), st.just(bytes(len(content)))))


EXTREMES = (b"\xff" * 4, b"\xff" * 8, b"\0" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80")
DAMAGES = (_cut, _change, _change, _lose, _add, _replace)


# fmt: off
ODD = [
    None, True, False, 0, 1, -1, 2, 1.5, 10**9, 2**63, 10**30, 10**400, float("nan"), float("inf"),
    1e308, "", "x", "../../../etc/passwd", "/etc/passwd", "a\0b", "\ud800", "x" * 5000,
    "<script>alert(1)</script>", "NaN", "attached", "composed", [], {}, [[]], [None], {"": {}},
    ["a", "b"], [0.5, 0.5, 0.5],
]
# fmt: on
ADDED = "kind name backbone stem head attention preprocessing pickle".split()
values = st.recursive(
    st.sampled_from(ODD) | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def paths(document: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of keys to every value in the document."""
    found = [before] if before else []
    pairs = document.items() if isinstance(document, dict) else ()
    pairs = enumerate(document) if isinstance(document, list) else pairs
    for key, value in pairs:
        found += paths(value, (*before, key))
    return found


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three values replaced, removed or added."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        where = paths(changed)
        if not where:
            return draw(values)
        *way, last = draw(st.sampled_from(where))
        holder = changed
        for key in way:
            holder = holder[key]
        how = draw(st.sampled_from(["exchange", "exchange", "exchange", "remove", "add"]))
        if how == "exchange":
            holder[last] = copy.deepcopy(draw(values))  # a second change must not reach ODD
        elif how == "remove":
            del holder[last]
        elif isinstance(holder, dict):
            holder[draw(st.sampled_from(ADDED))] = copy.deepcopy(draw(values))
    return changed


def written(document: Any) -> bytes:
    """The document as bytes, with lone surrogates, NaN and integers of any length."""
    return json.dumps(document).encode("utf-8", "surrogatepass")
