"""Damaged files: bytes cut off, changed, lost or added; and JSON with wrong values."""

import copy
import json
from functools import reduce
from operator import getitem
from typing import Any

from hypothesis import strategies as st

EXTREMES = (b"\xff" * 4, b"\xff" * 8, b"\0" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80")


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The file with one to three parts changed, lost, added or cut off, or other bytes."""
    content = whole
    for _ in range(draw(st.integers(1, 3))):
        # Anywhere or, half of the time, near the beginning, where headers are.
        near = min(len(content), 64)
        begin = draw(st.integers(0, len(content)) | st.integers(0, near))
        end = draw(st.integers(begin, len(content)) | st.integers(begin, begin + 100))
        new = draw(st.binary(max_size=40) | st.sampled_from(EXTREMES))
        same_length = draw(st.booleans())
        content = content[:begin] + new + content[begin + len(new) if same_length else end :]
    return content


# fmt: off
ODD = [
    None, True, False, 0, 1, -1, 2, 1.5, 10**9, 2**63, 10**30, 10**400, float("nan"), float("inf"),
    1e308, "", "x", "../../../etc/passwd", "/etc/passwd", "a\0b", "\ud800", "x" * 5000,
    "<script>alert(1)</script>", "NaN", "attached", "custom", [], {}, [[]], [None], {"": {}},
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
        holder = reduce(getitem, way, changed)
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
