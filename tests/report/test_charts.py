"""Charts with gaps, single points and flat lines."""

import math

from aib.interpret.metrics.bootstrap import Estimate
from aib.interpret.results import Faithfulness
from aib.report.charts import Line, bar_chart, faithfulness_charts, line_chart, thin_out
from tests.helpers import HtmlPage


def test_gaps_single_points_and_flat_lines_are_drawn():
    for x, y in (([0, 1, 2], [1, math.nan, 1]), ([1], [1]), ([0, 1], [3, 3])):
        [(caption, svg)] = line_chart("caption", [Line(x, y)], "x", "nats")
        label = f"caption, against x: at the end {y[-1]} (nats)"
        assert caption == "caption" and HtmlPage(svg).drawings[0]["aria-label"] == label


def test_there_is_no_chart_without_finite_values():
    assert line_chart("caption", [Line([0, 1], [math.nan, math.nan])], "x") == []
    assert line_chart("caption", [], "x") == []


def test_names_are_escaped_and_formulas_are_not_parsed():
    [(_, svg)] = line_chart("d <e>", [Line([0], [1], "a <b> $x"), Line([1], [2], "c $y")], "x")
    assert "a &lt;b&gt; $x" in svg and "d &lt;e&gt;" in svg


def test_the_curves_of_faithfulness_name_both_axes():
    curve, ends = [0.9, 0.5, 0.1], Estimate(0.5)
    found = Faithfulness(ends, ends, deletion_curve=curve, insertion_curve=curve[::-1])
    for kinds in (["own"], ["own", "gradcam", "integrated_gradients", "centre", "random"]):
        for _, svg in faithfulness_charts(dict.fromkeys(kinds, found)):
            drawn = svg.partition(">")[2]  # without the label for screen readers
            assert "probability of the class, %" in drawn


def test_a_bar_shows_its_text_on_hover():
    _, svg = bar_chart("caption", [0, 1, 2], [0, 3], "x", "y", ["none & nil", "three"])
    HtmlPage(svg)
    assert "<title>none &amp; nil</title>" in svg and "<title>three</title>" in svg


def test_a_long_curve_is_thinned_out_and_keeps_its_last_point():
    rows = [{"step": i} for i in range(1234)]
    kept = thin_out(rows)
    assert 200 < len(kept) <= 400 and kept[-1] == rows[-1]
    assert thin_out(rows[:3]) == rows[:3] and thin_out([]) == []
