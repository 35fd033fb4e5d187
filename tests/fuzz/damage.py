"""Ways in which a file goes wrong: cut off, bytes changed, lost or added, or another file."""

from hypothesis import strategies as st


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The file after one to three accidents."""
    content = whole
    for _ in range(draw(st.integers(1, 3))):
        content = draw(st.sampled_from(ACCIDENTS))(draw, content)
    return content


def _place(draw: st.DrawFn, content: bytes) -> int:
    """Anywhere, and every other time near the beginning, where the headers are."""
    last = len(content) if draw(st.booleans()) else min(len(content), 64)
    return draw(st.integers(0, last))


def _cut(draw: st.DrawFn, content: bytes) -> bytes:
    return content[: _place(draw, content)]


def _change(draw: st.DrawFn, content: bytes) -> bytes:
    at = _place(draw, content)
    new = draw(st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(EXTREMES)))
    return content[:at] + new + content[at + len(new) :]


def _lose(draw: st.DrawFn, content: bytes) -> bytes:
    at = _place(draw, content)
    return content[:at] + content[at + draw(st.integers(1, 100)) :]


def _add(draw: st.DrawFn, content: bytes) -> bytes:
    at = _place(draw, content)
    return content[:at] + draw(st.binary(min_size=1, max_size=40)) + content[at:]


def _replace(draw: st.DrawFn, content: bytes) -> bytes:
    return draw(st.one_of(st.binary(max_size=200), st.just(bytes(len(content)))))


EXTREMES = (b"\xff" * 4, b"\xff" * 8, b"\0" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80")
ACCIDENTS = (_cut, _change, _change, _lose, _add, _replace)
