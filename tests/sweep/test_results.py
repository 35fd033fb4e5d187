"""Means, deviations, tables, the figure and the page, from figures written by hand."""

import json
import math
import re

import pytest

from aib.cli import main
from aib.files import write_whole
from aib.report.ablation import sweep_page
from aib.sweep.panels import bars, draw, positions
from aib.sweep.results import gather, read_results, shown_measures, tables, write_results
from tests.report.test_report import Page
from tests.sweep.test_plan import plan


def found(accuracy, auroc=0.9, bits=20.0, perplexity=10.0):
    """What a finished run leaves."""
    figures = {"accuracy": accuracy, "auroc": auroc, "bits": bits, "perplexity": perplexity}
    figures["accuracy_interval"] = [accuracy - 1, accuracy + 1]
    return {
        "weights_sha256": "",
        "split": "test",
        "images": 400,
        "samples": "4x12",
        "figures": figures,
        "train_seconds": 60.0,
        "environment": {"device": "a CPU"},
    }


def put(folder, name, result):
    text = json.dumps(result)
    write_whole(folder / name / "sweep_figures.json", lambda path: path.write_text(text))


@pytest.fixture
def swept(tmp_path):
    """beta at three points and K at two, three seeds; one run failed and one is missing."""
    made = plan("beta=1e-3,1e-2,1e-1", "K=8,32", seeds=(3, 4, 5))
    made.write(tmp_path)
    for i, seed in enumerate((3, 4, 5)):
        put(tmp_path, f"beta=0.001,seed={seed}", found(90 + i))
        put(tmp_path, f"base,seed={seed}", found([80, 80, 95][i], bits=[1, 2, 6][i]))
    put(tmp_path, "beta=0.1,seed=3", found(50))
    put(tmp_path, "K=8,seed=3", found(70))
    put(tmp_path, "K=8,seed=4", found(71))
    write_results(tmp_path, gather(made, tmp_path, {"beta=0.1,seed=4": "no <b>luck</b>"}))
    return tmp_path


def test_means_and_deviations_are_those_over_seeds(swept):
    beta, size = read_results(swept)["panels"]
    low, own, high = beta["lines"][0]["points"]
    assert (low["n"], low["accuracy"]) == (3, {"mean": 91.0, "deviation": 1.0})
    assert own["accuracy"]["mean"] == 85
    assert own["accuracy"]["deviation"] == pytest.approx(math.sqrt((25 + 25 + 100) / 2))
    assert own["bits"]["mean"] == 3 and own["bits"]["deviation"] == pytest.approx(math.sqrt(7))
    assert (high["n"], high["accuracy"]) == (1, {"mean": 50.0, "deviation": None})
    small, shared = size["lines"][0]["points"]
    assert small["n"] == 2
    assert {k: v for k, v in shared.items() if k != "value"} == {
        k: v for k, v in own.items() if k != "value"
    }


def test_results_say_how_they_were_made(swept):
    results = read_results(swept)
    assert results["base"]["latent_dim"] == 32 and results["seeds"] == [3, 4, 5]
    assert {"python", "torch", "aib", "device", "command"} <= set(results["environment"])
    assert results["runs"]["beta=0.1,seed=5"]["figures"] is None


def test_tables_mark_the_presets_own_value(swept):
    beta, size = tables(read_results(swept))
    assert beta.head == ("beta", "n", "accuracy %", "AUROC", "bits", "anchors in use")
    assert [row[:3] for row in beta.rows] == [
        ("0.001", "3", "91.00 ± 1.00"),
        ("0.01 *", "3", "85.00 ± 8.66"),
        ("0.1", "1", "50.00"),
    ]
    assert [row[0] for row in size.rows] == ["8", "32 *"]
    assert "On 400 test images of shapes:count=16" in beta.note


def test_a_product_has_a_line_for_each_choice_of_the_others(tmp_path):
    made = plan("beta=0.1,0.01", "K=8,32", product=True)
    put(tmp_path, "K=8,beta=0.1,seed=3", found(11))
    put(tmp_path, "base,seed=3", found(44))
    results = gather(made, tmp_path, {})
    beta, size = results["panels"]
    assert [line["name"] for line in beta["lines"]] == ["K=8", "K=32"]
    assert [line["name"] for line in size["lines"]] == ["beta=0.1", "beta=0.01"]
    assert beta["lines"][0]["points"][0]["accuracy"]["mean"] == 11
    assert size["lines"][1]["points"][1]["accuracy"]["mean"] == 44
    (table,) = tables(results)
    assert ("K=8", "0.1", "1", "11.00") in [row[:4] for row in table.rows]
    assert "K=8" in sweep_page(results)


def test_what_no_run_has_is_not_shown(tmp_path):
    made = plan("beta=0.1,1")
    put(tmp_path, "beta=0.1,seed=3", found(50, auroc=None, perplexity=None))
    results = gather(made, tmp_path, {})
    assert [m.key for m in shown_measures(results)] == ["accuracy", "bits"]
    assert "AUROC" not in sweep_page(results)


def test_the_page_has_a_row_of_panels_for_each_measure(swept, tmp_path):
    assert main(["report", str(swept)]) == 0
    text = (swept / "report.html").read_text()
    page = Page(text)
    assert {"summary", "accuracy", "auroc", "bits", "perplexity", "runs", "reproduce"} <= page.ids
    drawings = re.findall(r"<svg[^>]*>", text)
    assert len(drawings) == 4 * 2
    assert all(re.search(r'role="img" aria-label="[^"]{10,}"', d) for d in drawings)
    assert "Accuracy against beta: 0.001: 91.00 ± 1.00, 0.01: 85.00 ± 8.66, 0.1: 50.00" in text
    assert "script" not in page.tags and "http" not in text
    assert "no &lt;b&gt;luck&lt;/b&gt;" in text and "<b>" not in text
    assert "Means over 1 to 3 seeds" in text


def test_error_bars_are_drawn_where_there_is_a_deviation(swept):
    text = sweep_page(read_results(swept))
    (accuracy,) = re.findall(r'<section id="accuracy">.*?</section>', text)
    first, second = re.findall(r"<svg.*?</svg>", accuracy)
    # Three points of beta, two of them with several seeds; two of K, both with several.
    assert (first.count("<circle"), first.count("<path")) == (3, 2)
    assert (second.count("<circle"), second.count("<path")) == (2, 2)
    assert ">0.001<" in first and ">32<" in second


def test_the_figure_has_a_row_for_each_measure_and_a_column_for_each_knob(swept):
    figure = draw(read_results(swept))
    assert len(figure.axes) == 4 * 2
    x, y = figure.axes[0].lines[0].get_data()
    assert list(x) == pytest.approx([-3, -2, -1]) and list(y) == [91, 85, 50]
    assert [t.get_text() for t in figure.axes[-1].get_xticklabels()] == ["8", "32"]


def test_one_seed_has_no_bars_and_says_so(tmp_path):
    put(tmp_path, "beta=0.1,seed=3", found(50))
    results = gather(plan("beta=0.1,1"), tmp_path, {})
    assert bars(results) == "One seed a point, so no error bars."
    assert "<path" not in sweep_page(results)


def test_an_axis_is_logarithmic_where_values_are_spread():
    assert positions([1e-3, 1e-2, 1]) == pytest.approx([-3, -2, 0])
    assert positions([64, 128, 256]) == [64, 128, 256]
    assert positions([0, 0.01, 1]) == [0, 1, 2]  # no logarithm, too spread for a plain axis
    assert positions(["gate", "residual"]) == positions([True, False]) == [0, 1]
    assert positions([None, 2.0]) == [0, 1]
    assert positions([5]) == [5]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda found: [found.pop(key) for key in list(found) if key != "schema"], "preset"),
        (lambda found: found.pop("runs"), "runs"),
        (lambda found: found.update(base={}), "base"),
        (lambda found: found["runs"].update({"base,seed=3": None}), "runs"),
        (lambda found: found.update(panels=[]), "panels"),
        (lambda found: found["panels"][0]["lines"][0].update(points=[]), "panels"),
        (lambda found: found["panels"][0]["lines"][0]["points"][0].pop("bits"), "panels"),
    ],
)
def test_damaged_results_are_one_sentence(swept, capsys, change, part):
    path = swept / "sweep_results.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    assert main(["report", str(swept)]) == 2
    told = capsys.readouterr().err
    assert f"is damaged, its {part} cannot be read" in told and told.count("\n") == 1


ANEW = "A run's seed also draws its training shapes"


def test_over_shapes_a_deviation_is_said_to_include_other_training_images(swept):
    results = read_results(swept)
    assert all(ANEW in table.note for table in tables(results)) and ANEW in bars(results)
    for change in ({"seeds": [3]}, {"base": results["base"] | {"data": "cifar10"}}):
        assert not any(ANEW in table.note for table in tables(results | change))


def test_the_page_names_the_split_of_its_intervals(swept):
    results = read_results(swept)
    assert "one run on its test images" in sweep_page(results)
    for run in results["runs"].values():
        run["split"] = run["split"] and "val"
    assert "one run on its val images" in sweep_page(results)


def test_a_sweep_is_reported_alone(swept, capsys):
    assert main(["report", str(swept), str(swept / "base,seed=3")]) == 2
    assert "name it alone" in capsys.readouterr().err
    (swept / "sweep_results.json").unlink()
    assert main(["report", str(swept)]) == 2
    assert "no run of the sweep has ended" in capsys.readouterr().err
