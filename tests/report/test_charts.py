"""Charts with gaps, single points and flat lines."""

import math

from aib.report.charts import Line, bar_chart, line_chart, thin_out
from tests.helpers import HtmlPage


def test_gaps_single_points_and_flat_lines_are_drawn():
    for x, y in (([0, 1, 2], [1, math.nan, 1]), ([1], [1]), ([0, 1], [3, 3])):
        [chart] = line_chart("caption", [Line(x, y)], "a description", "x")
        assert HtmlPage(chart.svg).drawings[0]["aria-label"] == "a description"


def test_there_is_no_chart_without_finite_values():
    assert line_chart("caption", [Line([0, 1], [math.nan, math.nan])], "nothing", "x") == []
    assert line_chart("caption", [], "nothing", "x") == []


def test_names_are_escaped_and_formulas_are_not_parsed():
    [chart] = line_chart("", [Line([0], [1], "a <b> $x"), Line([1], [2], "c $y")], "d <e>", "x")
    assert "a &lt;b&gt; $x" in chart.svg and "d &lt;e&gt;" in chart.svg


def test_a_bar_shows_its_text_on_hover():
    chart = bar_chart("caption", [0, 1, 2], [0, 3], "bars", "x", "y", ["none & nil", "three"])
    HtmlPage(chart.svg)
    assert "<title>none &amp; nil</title>" in chart.svg and "<title>three</title>" in chart.svg


def test_a_long_curve_is_thinned_out_and_keeps_its_last_point():
    rows = [{"step": i} for i in range(1234)]
    kept = thin_out(rows)
    assert len(kept) < 420 and kept[0] == rows[0] and kept[-1] == rows[-1]
    assert thin_out(rows[:3]) == rows[:3] and thin_out([]) == []
