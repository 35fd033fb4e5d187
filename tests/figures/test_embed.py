"""Figures as inline SVG."""

import re

from matplotlib.figure import Figure

from aib.figures.embed import COLORS, RULE, page_style, to_svg
from tests.helpers import HtmlPage


def drawn(description: str) -> str:
    with page_style():
        figure = Figure(figsize=(2, 1))
        figure.subplots().plot([0, 1], [0, 1], marker="o")
        return to_svg(figure, description)


def test_an_svg_takes_colours_and_fonts_from_the_page():
    svg = drawn("a line")
    assert "var(--c0)" in svg and "var(--rule)" in svg and "font-family" not in svg
    assert not any(color in svg for color in (*COLORS, RULE))
    assert "http" not in svg and "<style" not in svg


def test_ids_are_used_and_differ_between_figures():
    one, other = drawn("one figure"), drawn("another")
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in (one, other)]
    assert ids[0] and ids[1] and not ids[0] & ids[1]
    assert all(f"#{name}" in one for name in ids[0])
    assert HtmlPage(one).drawings[0]["aria-label"] == "one figure"
