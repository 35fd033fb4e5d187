"""The page of a sweep."""

from dataclasses import replace

import pytest

from aib.cli import main
from aib.report.sweep_page import sweep_page
from aib.sweep.results import read_results, write_results
from tests.helpers import HtmlPage, sweep_plan, write_measurement, write_sweep


@pytest.fixture
def swept(tmp_path):
    """The folder of a sweep with results."""
    return write_sweep(tmp_path)


def test_the_page_has_a_plot_for_each_metric(swept):
    assert main(["report", str(swept)]) == 0
    text = (swept / "report.html").read_text()
    page = HtmlPage(text)
    assert {"summary", "accuracy", "auroc", "bits", "perplexity", "runs", "reproduce"} <= page.ids
    assert len(page.drawings) == 4 and all(d["role"] == "img" for d in page.drawings)
    assert page.drawings[0]["aria-label"].startswith("Accuracy against beta, K")
    assert "script" not in page.tags and "http" not in text
    assert "no &lt;b&gt;luck&lt;/b&gt;" in text and "<b>" not in text
    assert "Means over 1 to 3 seeds" in text


def test_the_page_names_the_split_of_its_intervals(swept):
    results = read_results(swept)
    assert "one run on its test images" in sweep_page(results)
    runs = {name: replace(run, split=run.split and "val") for name, run in results.runs.items()}
    assert "one run on its held-out images" in sweep_page(replace(results, runs=runs))


def test_a_product_and_missing_metrics(tmp_path):
    write_measurement(tmp_path, "K=8,beta=0.1,seed=3", 11, auroc=None)
    plan = sweep_plan("beta=0.1,0.01", "K=8,32", product=True)
    text = sweep_page(write_results(plan, tmp_path, {}))
    assert "K=8" in text and "AUROC" not in text


def test_a_sweep_is_reported_alone(swept, capsys):
    assert main(["report", str(swept), str(swept / "base,seed=3")]) == 2
    assert "name it alone" in capsys.readouterr().err
    (swept / "sweep_results.json").unlink()
    assert main(["report", str(swept)]) == 2
    assert "no run of the sweep has finished" in capsys.readouterr().err
