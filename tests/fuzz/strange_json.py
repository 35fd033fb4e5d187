"""JSON that nobody meant: values of any shape, and good documents with something exchanged."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

ODD = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    1.5,
    10**9,
    2**63,
    10**30,
    10**400,
    float("nan"),
    float("inf"),
    1e308,
    "",
    "x",
    "../../../etc/passwd",
    "/etc/passwd",
    "a\0b",
    "\ud800",
    "x" * 5000,
    "<script>alert(1)</script>",
    "NaN",
    "attached",
    "composed",
    [],
    {},
    [[]],
    [None],
    {"": {}},
    ["a", "b"],
    [0.5, 0.5, 0.5],
]
ADDED = "kind name backbone stem head attention preprocessing pickle".split()
values = st.recursive(
    st.sampled_from(ODD) | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def paths(document: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in the document."""
    found = [before] if before else []
    pairs = document.items() if isinstance(document, dict) else ()
    pairs = enumerate(document) if isinstance(document, list) else pairs
    for key, value in pairs:
        found += paths(value, (*before, key))
    return found


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three of its values exchanged, taken away, or others added."""
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
    """As bytes, also what JSON has no name for: lone surrogates, NaN, integers of any length."""
    return json.dumps(document).encode("utf-8", "surrogatepass")
