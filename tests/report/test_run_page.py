"""The page of a run: it shows what was measured, is self-contained, and names missing commands."""

import json
import re
import shutil
from dataclasses import replace
from html import unescape

import pytest

from aib.cli import main
from aib.config.settings import Settings
from aib.interpret.measured import Information
from aib.interpret.results import Study
from aib.report.gather import gather
from aib.report.run_page import run_page
from aib.runs.run import open_run
from aib.system.files import write_json
from tests.helpers import HtmlPage, make_run, small_model


def evaluation(error, data="shapes", split="test", **more):
    """The result of `aib eval`."""
    return {
        "data": data, "split": split, "classes": "own", "images": 100, "top1_error": error,
        "top1_interval": [error - 1, error + 1], "top5_error": None, "top5_interval": None,
        "nll": 0.25, "calibration_error": 3.0, "kl_bits": 20.0, "samples": "4x12",
        "averaged": "probabilities", **more,
    }  # fmt: skip


def write_evaluations(folder, **found):
    write_json(folder / "evaluation.json", found)


def page_of(*runs, out=None):
    """The page that the command writes."""
    assert main(["report", *map(str, runs), *(["--out", str(out)] if out else [])]) == 0
    return unescape((out or runs[0] / "report.html").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with the files that train, eval and interpret write."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "qt", data="shapes:count=12")
    rows = []
    for step in range(10, 50, 10):
        terms = {"total": 3 / step, "nll": 2 / step, "kl": 5.0, "error": 90 - step}
        rows.append({"step": step, "epoch": step // 20, **terms, "perplexity": 9.0})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_evaluations(folder, **{"shapes:count=12 test": evaluation(12.5)})
    options = ["--foreign", "shapes", "--subset", "3", "--device", "cpu"]
    assert main(["interpret", str(folder), *options]) == 0
    return folder


@pytest.fixture(scope="module")
def page_text(run):
    return page_of(run)


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def test_the_page_has_every_part_and_is_self_contained(run, page_text):
    text = (run / "report.html").read_text()
    page = HtmlPage(text)
    parts = {"summary", "maps", "evaluation", "trust", "training", "reproduce"}
    assert parts <= page.ids
    for words in ("12.50%", "Anchors in use", "correlation with the"):
        assert words in text
    assert page.images and all(len(found.get("alt", "")) > 5 for found in page.images)
    assert len([image for image in page.images if image["src"].startswith("data:image/svg")]) == 4
    assert "script" not in page.tags and "@import" not in text
    assert all(a.startswith(("data:", "#")) for a in page.addresses) and "://" not in text
    assert {a[1:] for a in page.addresses if a.startswith("#")} <= page.ids


def test_what_is_missing_is_named_with_the_command_that_measures_it(tmp_path):
    folder = make_run(tmp_path / "my run", data="shapes:count=200", holdout=0.2)
    text = page_of(folder)
    for command, what in (("eval", "error"), ("interpret", "map")):
        assert f"{what}: not measured; run <code>aib {command} '{folder}'</code>" in text
    write_evaluations(folder, **{"shapes:count=200 val": evaluation(14.5, split="val")})
    text = page_of(folder)
    assert "held-out error" in text and "test images: not evaluated; run" in text
    more = {"shapes:count=200 test": evaluation(12.5)}
    write_evaluations(folder, **{"shapes:count=200 val": evaluation(14.5, split="val")}, **more)
    text = page_of(folder)
    assert "test error" in text and "not evaluated" not in text


def test_results_and_pictures_of_other_weights_are_left_out(copy):
    study = json.loads((copy / "interpret.json").read_text())
    write_json(copy / "interpret.json", study | {"weights_sha256": "0"})
    write_evaluations(copy, **{"shapes:count=12 test": evaluation(12.5, weights_sha256="0")})
    text = page_of(copy)
    assert 'alt="Images modified' not in text and "12.50%" not in text
    assert text.count("not measured; run") == 2


def test_each_metric_has_one_value_on_the_page(page_text):
    text = page_text
    cards = re.findall(r'<div class="value">([^<]+)</div><div class="what">([^<]+)</div>', text)
    shown = {what: value for value, what in cards}
    assert shown["calibration error"] == "3.00%"
    assert shown["bits per image in the latent (4x12 samples)"] == "20.0"
    auroc = shown["AUROC of the map against the object (3 images)"]
    located = text.split("<h3>Where is the object?</h3>")[1].split("</table>")[0]
    assert f"<td>{auroc} (" in located


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"model": "vgg_aib_qt"}, "4.10"),
        ({"model": "vgg_aib_qt", "width": 0.5}, None),
        ({"model": "vgg_aib_qt", "holdout": 0.1}, None),
    ],
)
def test_the_papers_error_is_shown_for_models_of_the_paper(settings, error, tmp_path):
    folder = make_run(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    config["settings"] = Settings(data="cifar10").updated(**settings).to_dict()
    write_json(folder / "config.json", config)
    write_evaluations(
        folder, **{f"{data} test": evaluation(9, data) for data in ("cifar10", "svhn")}
    )
    text = page_of(folder)
    assert text.count("<td>4.10</td>") == (error is not None)  # beside the run's own data
    assert ("the paper's error" in text) == (error is not None)


def test_several_runs_are_compared_on_one_page(run, tmp_path):
    plain, out = make_run(tmp_path / "plain", "tiny"), tmp_path / "both.html"
    page_of(run, plain, out=out)
    ids = HtmlPage(out.read_text()).ids
    assert {"comparison", "run0-summary", "run1-summary", "run1-reproduce"} <= ids


@pytest.fixture
def content(run):
    """The run's content without what takes long to draw."""
    study = Study("tiny_aib_qt", 400, 90.0, split="test")
    return replace(gather(open_run(run, "cpu")), metrics=[], pictures=(), study=study)


def test_a_comparison_says_if_maps_were_not_measured_on_the_same_images(content):
    note = "The maps were not measured on the same images"
    for change in ({"data": "svhn"}, {"seed": 1}, {"split": "val"}, {}):
        other = replace(content, label="other", study=replace(content.study, **change))
        assert (note in run_page([content, other])) == (change != {})


def test_a_damaged_evaluation_is_an_error_of_one_line(copy, capsys):
    (copy / "evaluation.json").write_text('{"shapes test": {"data": 7}}')
    assert main(["report", str(copy)]) == 2
    error = capsys.readouterr().err.strip()
    assert error.endswith("evaluation.json: shapes test: data must be a string, not 7")


def test_the_penalty_of_the_released_code_is_not_called_information(run, content):
    """It differs from the divergence, whose bits the evaluation has, by a hundredfold."""
    content = replace(content, metrics=gather(open_run(run, "cpu")).metrics)
    released = replace(content, settings=content.settings.updated(profile="released"))
    pages = [run_page([one]) for one in (content, released)]
    assert ["Information in the latent" in page for page in pages] == [True, False]
    assert ["(nats; the total in bits)" in page for page in pages] == [False, True]


def test_a_summary_has_percent_and_how_the_run_was_made(content):
    information = Information(perplexity=7.5, anchors=[0.0] * 20)
    made = {"environment": {"command": "aib interpret qt"}}
    study = replace(content.study, information=information, **made)
    content = replace(content, study=study)
    own = {f"{content.settings.data} test": replace(content.own_evaluation, area=0.25, mask_bits=9)}
    made = {"torch": "2.9.1", "command": "aib train shapes"}
    text = unescape(run_page([replace(content, evaluations=own, environment=made)]))
    assert ">aib train shapes\naib interpret qt</pre>" in text
    assert "Trained with torch 2.9.1, seed 0." in text
    assert "<td>model</td><td>tiny_aib_qt</td>" in text  # of all settings
    for value, what in (("25.0%", "of each image is open"), ("7.5", "of 20 anchors in use")):
        assert f'<div class="value">{value}</div><div class="what">{what}' in text


def test_a_saved_model_without_settings_has_a_page(tmp_path):
    small_model().save_pretrained(tmp_path / "saved")
    text = page_of(tmp_path / "saved")
    assert "tiny_aib_qt" in text and text.count("not measured; run") == 2


def test_names_are_escaped(tmp_path):
    folder = make_run(tmp_path / "<b>run", "tiny_aib_qt")
    page_of(folder, out=tmp_path / "p.html")
    assert "<b>" not in (tmp_path / "p.html").read_text()
