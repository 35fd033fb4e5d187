"""The plot of a sweep."""

import pytest

from aib.sweep.panels import draw_panels, error_bar_note, positions
from aib.sweep.results import collect_results, read_results
from tests.helpers import sweep_plan, write_measurement


def error_bars(axis):
    """Ends of the error bars of a panel."""
    return [
        tuple(end[1] for end in segment)
        for container in axis.containers
        for segment in container.lines[2][0].get_segments()
    ]


def test_the_plot_has_a_row_per_metric_and_a_column_per_knob(swept):
    results = read_results(swept)
    figure = draw_panels(results, results.metrics)
    assert len(figure.axes) == 4 * 2
    x, y = figure.axes[0].lines[0].get_data()
    assert list(x) == pytest.approx([-3, -2, -1]) and list(y) == [91, 85, 50]
    assert [t.get_text() for t in figure.axes[-1].get_xticklabels()] == ["8", "32"]


def test_error_bars_are_drawn_where_there_are_several_seeds(swept):
    results = read_results(swept)
    axis = draw_panels(results, results.metrics).axes[0]
    assert error_bars(axis) == [(90, 92), pytest.approx((85 - 75**0.5, 85 + 75**0.5))]


def test_one_seed_has_no_error_bars(tmp_path):
    write_measurement(tmp_path, "beta=0.1,seed=3", 50)
    results = collect_results(sweep_plan("beta=0.1,1"), tmp_path, {})
    assert error_bar_note(results) == "One seed per point, so no error bars."
    assert error_bars(draw_panels(results, results.metrics).axes[0]) == []


def test_an_axis_is_logarithmic_for_widely_spread_values():
    assert positions([1e-3, 1e-2, 1]) == pytest.approx([-3, -2, 0])
    assert positions([64, 128, 256]) == [0, 1, 2]
    assert positions([0, 0.01, 1]) == [0, 1, 2]  # no logarithm
    assert positions(["gate", "residual"]) == positions([True, False]) == [0, 1]
    assert positions([None, 2.0]) == [0, 1]
