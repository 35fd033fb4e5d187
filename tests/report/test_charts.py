"""Charts with gaps, single points and flat lines, and that they show the numbers."""

import base64
import math

import numpy as np
import pytest

from aib.report import charts
from aib.report.charts import Line, line_chart, thin_out


@pytest.fixture
def axes(monkeypatch):
    """The axes that are drawn from now on, in order."""
    found = []
    monkeypatch.setattr(charts, "svg_uri", lambda figure: found.append(figure.axes[0]) or "data:")
    return found


def lines(axis):
    """(x, y) of each line."""
    return [tuple(np.round(line.get_data(), 9).tolist()) for line in axis.lines]


def test_training_is_drawn_over_steps_in_the_units_of_the_axes(axes):
    rows = [
        {"step": 4, "epoch": 0, "nll": 2.0, "total": 3.0, "kl": math.log(2), "error": 50.0},
        {"step": 8, "epoch": 1, "nll": 1.0, "total": 2.0, "kl": math.log(4), "error": 25.0},
        {"step": 8, "epoch": 1, "validation": {"top1_error": 40.0}},
    ]
    charts.training_charts([row | {"area": 0.5} for row in rows])  # of no mask
    charts.training_charts([row | {"area": 0.5, "mask_bits": 9.0} for row in rows])
    error, loss, bits, *_, area = map(lines, axes)
    assert len(axes) == 3 + 4 and area == [([4, 8], [50, 50])]
    assert error == [([4, 8], [50, 25]), ([8], [40])] and axes[0].lines[1].get_marker() == "o"
    assert loss == [([4, 8], [3, 2]), ([4, 8], [2, 1])] and bits == [([4, 8], [1, 2])]
    assert [len(axis.figure.legends) for axis in axes[:3]] == [1, 1, 0]


def test_gaps_single_points_and_flat_lines_are_drawn_and_nothing_without_values():
    for x, y in (([0, 1, 2], [1, math.nan, 1]), ([1], [1]), ([0, 1], [3, 3])):
        [chart] = line_chart("caption", [Line(x, y)], "x", "nats")
        assert chart.content == f"caption, against x: at the end {y[-1]} (nats)"
    assert line_chart("caption", [Line([0, 1], [math.nan, math.nan])], "x", "y") == []
    assert line_chart("caption", [], "x", "y") == []


def test_names_are_drawn_as_they_are():
    [chart] = line_chart("d", [Line([0], [1], "a <b> $x$"), Line([1], [2], "c")], "x", "y")
    svg = base64.b64decode(chart.uri.partition("base64,")[2]).decode()
    assert "a &lt;b&gt; $x$" in svg  # no formula


def test_a_long_curve_is_thinned_out_and_keeps_its_last_point():
    rows = [{"step": i} for i in range(1234)]
    kept = thin_out(rows)
    assert 200 < len(kept) <= 400 and kept[-1] == rows[-1]
    assert thin_out(rows[:3]) == rows[:3] and thin_out([]) == []
