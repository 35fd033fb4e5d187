"""Tables and plots of a sweep."""

from dataclasses import replace

import pytest

from aib.sweep.results import read_results, write_results
from aib.sweep.show import draw_panels, error_bar_note, positions, sweep_tables
from aib.system.files import write_json
from tests.helpers import measurement, sweep_plan, write_measurement

OTHER_IMAGES = "A run's seed also draws its training shapes"


def test_tables_mark_the_presets_own_value(swept):
    beta, size = sweep_tables(read_results(swept))
    assert beta.head == ("beta", "n", "accuracy %", "AUROC", "bits", "anchors in use")
    assert [row[:3] for row in beta.rows] == [
        ("0.001", "3", "91.00 ± 1.00"),
        ("0.01 *", "3", "85.00 ± 8.66"),
        ("0.1", "1", "50.00"),
    ]
    assert [row[0] for row in size.rows] == ["8", "32 *"]
    assert "On 400 test images of shapes:count=16" in beta.note


def test_a_note_says_that_seeds_also_choose_the_training_shapes(swept):
    results = read_results(swept)
    assert all(OTHER_IMAGES in table.note for table in sweep_tables(results))
    assert OTHER_IMAGES in error_bar_note(results)
    for change in ({"seeds": (3,)}, {"base": replace(results.base, data="cifar10")}):
        tables = sweep_tables(replace(results, **change))
        assert not any(OTHER_IMAGES in table.note for table in tables)


def test_a_note_says_that_seeds_also_choose_the_held_out_images(swept):
    results = read_results(swept)
    runs = {name: replace(run, split="val") for name, run in results.runs.items()}
    for data, note in (("shapes", "and the held-out ones among them"), ("cifar10", "held-out")):
        held_out = replace(results, runs=runs, base=replace(results.base, data=data))
        text = error_bar_note(held_out)
        assert "A run's seed also draws its" in text and note in text and "test set" not in text


def error_bars(axis):
    """Ends of the error bars of a panel."""
    segments = [s for c in axis.containers for s in c.lines[2][0].get_segments()]
    return [tuple(end[1] for end in segment) for segment in segments if len(segment)]


def test_the_plot_has_a_row_per_metric_and_a_column_per_knob(swept):
    results = read_results(swept)
    figure = draw_panels(results, results.metrics)
    assert len(figure.axes) == 4 * 2
    x, y = figure.axes[0].lines[0].get_data()
    assert list(x) == pytest.approx([-3, -2, -1]) and list(y) == [91, 85, 50]
    assert [t.get_text() for t in figure.axes[-1].get_xticklabels()] == ["8", "32"]
    # bars where there are several seeds
    assert error_bars(figure.axes[0]) == [(90, 92), pytest.approx((85 - 75**0.5, 85 + 75**0.5))]


def test_a_product_has_one_table_and_one_seed_no_error_bars(tmp_path):
    write_measurement(tmp_path, "K=8,beta=0.1,seed=3", 11)
    plan = sweep_plan("beta=0.1,0.01", "K=8,32", product=True)
    results = write_results(plan, tmp_path, {})
    (table,) = sweep_tables(results)
    assert ("K=8", "0.1", "1", "11.00") in [row[:4] for row in table.rows]
    assert error_bar_note(results) == "One seed per point, so no error bars."
    axis = draw_panels(results, results.metrics).axes[0]
    assert error_bars(axis) == []
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["K=8", "K=32"]


def test_an_axis_is_logarithmic_for_widely_spread_values():
    assert positions([1e-3, 1e-2, 1]) == pytest.approx([-3, -2, 0])
    assert positions([64, 128, 256]) == [0, 1, 2]
    assert positions([0, 0.01, 1]) == [0, 1, 2]  # no logarithm
    assert positions(["gate", "residual"]) == positions([True, False]) == [0, 1]
    assert positions([None, 2.0]) == [0, 1]


def test_the_note_names_the_samples_of_every_run(tmp_path):
    """Models and profiles differ in them; held-out images are called so."""
    for name, samples in {"model=vgg": "deterministic", "model=vgg_aib": "4x12"}.items():
        found = measurement(80) | {"samples": samples, "split": "val"}
        write_json(tmp_path / f"{name},seed=3" / "sweep_metrics.json", found)
    results = write_results(sweep_plan("model=vgg,vgg_aib"), tmp_path, {})
    (table,) = sweep_tables(results)
    assert "held-out images of" in table.note
    assert "accuracy and bits with 4x12 samples or no noise, maps without" in table.note
