"""Results of a sweep: means and standard deviations of metrics written by hand, and their JSON."""

import json
import math

import pytest

from aib.cli import main
from aib.sweep.results import Spread, SweepResults, read_results, write_results
from tests.helpers import sweep_plan, write_measurement


def test_mean_and_standard_deviation_are_over_seeds(swept):
    beta, size = read_results(swept).panels
    low, own, high = beta.lines[0].points
    assert (low.n, low.accuracy) == (3, Spread(91.0, 1.0))
    assert own.accuracy.mean == 85
    assert own.accuracy.std == pytest.approx(math.sqrt((25 + 25 + 100) / 2))
    assert own.bits.mean == 3 and own.bits.std == pytest.approx(math.sqrt(7))
    assert (high.n, high.accuracy) == (1, Spread(50.0, None))
    small, shared = size.lines[0].points
    assert small.n == 2
    assert (shared.point, shared.n, shared.accuracy) == (own.point, own.n, own.accuracy)


def test_a_product_has_a_line_per_choice_of_the_other_knobs(tmp_path):
    plan = sweep_plan("beta=0.1,0.01", "K=8,32", product=True)
    write_measurement(tmp_path, "K=8,beta=0.1,seed=3", 11)
    write_measurement(tmp_path, "base,seed=3", 44)
    beta, size = write_results(plan, tmp_path, {}).panels
    assert [line.name for line in beta.lines] == ["K=8", "K=32"]
    assert [line.name for line in size.lines] == ["beta=0.1", "beta=0.01"]
    assert beta.lines[0].points[0].accuracy.mean == 11
    assert size.lines[1].points[1].accuracy.mean == 44


def test_metrics_that_no_run_has_are_left_out(tmp_path):
    write_measurement(tmp_path, "beta=1,seed=3", 50, auroc=None, perplexity=None)
    results = write_results(sweep_plan("beta=1,10"), tmp_path, {})
    assert [metric.key for metric in results.metrics] == ["accuracy", "bits"]
    write_measurement(tmp_path, "beta=10,seed=3", 60, auroc=None)
    results = write_results(sweep_plan("beta=1,10"), tmp_path, {})
    assert [metric.key for metric in results.metrics] == ["accuracy", "bits", "perplexity"]
    assert [point.accuracy.mean for point in results.panels[0].points] == [50, 60]


def test_results_are_read_back_from_json(swept):
    results = read_results(swept)
    text = json.dumps(results.to_dict())
    assert SweepResults.from_dict(json.loads(text), swept) == results
    assert '"std": 1.0' in text and "deviation" not in text


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda found: [found.pop(key) for key in list(found) if key != "schema"], "damaged"),
        (lambda found: found.pop("runs"), "lacks 'runs'"),
        (lambda found: found.update(base=7), "damaged"),
        (lambda found: found["runs"].update({"base,seed=3": None}), "runs.base,seed=3"),
        (lambda found: found.update(panels=[]), "panels"),
        (lambda found: found["panels"][0]["lines"][0].update(points=[]), "panels"),
        (lambda found: found["panels"][0]["lines"][0]["points"][0].pop("bits"), "'bits'"),
        (lambda found: found["panels"][1]["lines"][0]["points"][0].update(n="3"), "points[0].n"),
    ],
)
def test_damaged_results_are_an_error_of_one_line(swept, capsys, change, part):
    path = swept / "sweep_results.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    assert main(["report", str(swept)]) == 2
    error = capsys.readouterr().err
    assert str(path) in error and part in error and error.count("\n") == 1
