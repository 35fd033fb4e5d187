"""The page of a run: complete, self-contained, accessible, without errors in a browser."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from html import unescape
from importlib import import_module

import pytest

from aib.cli import main
from aib.commands.arguments import parse
from aib.commands.interpret import DRAWN
from aib.commands.train import Options
from aib.config.settings import Settings
from aib.figures.table import Table
from aib.interpret.results import SCHEMA, ClassMetrics, Information, Study
from aib.report.blocks import Section, blocks, meaning, render
from aib.report.gather import gather
from aib.report.reproduce import training_command
from aib.report.run_page import CAPTIONS, run_page
from aib.runs.run import open_run
from aib.system.files import sha256
from tests.helpers import HtmlPage, make_run
from tests.tools.stored import evaluation


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with the files that `aib train` writes."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "qt")
    rows = []
    for step in range(10, 50, 10):
        terms = {"total": 3 / step, "nll": 2 / step, "kl": 5.0, "error": 90 - step}
        rows.append({"step": step, "epoch": step // 20, **terms, "perplexity": 9.0})
    for epoch in range(2):
        rows.append({"step": 20, "epoch": epoch, "anchors": [0.1 * i for i in range(20)]})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = evaluation(12.5, "shapes", images=100) | {"calibration_error": 3.0, "kl_bits": 20.0}
    (folder / "evaluation.json").write_text(json.dumps({"shapes test": found}))
    return folder


@pytest.fixture(scope="module")
def text(run):
    assert main(["report", str(run), "--images", "12", "--subset", "3"]) == 0
    return (run / "report.html").read_text()


def test_the_page_has_every_part_and_is_self_contained(text):
    page = HtmlPage(text)
    parts = {"summary", "maps", "evaluation", "trust", "training", "anchors", "classes"}
    assert parts | {"reproduce"} <= page.ids
    for words in ("12.50%", "Reliability", "Anchors over training", "Deletion", "aib train"):
        assert words in text
    assert re.search(r"Undecided|decorative|uses the map", text)
    assert page.images and all(len(found.get("alt", "")) > 5 for found in page.images)
    assert len(page.drawings) > 8
    assert all(d["role"] == "img" and len(d["aria-label"]) > 10 for d in page.drawings)
    assert "script" not in page.tags and "@import" not in text
    assert all(a.startswith(("data:", "#")) for a in page.addresses) and "://" not in text
    assert {a[1:] for a in page.addresses if a.startswith("#")} <= page.ids
    assert "var(--c0)" in text  # the charts' colours follow the page's


def test_long_names_wrap_and_leave_room_for_the_other_columns():
    name = "folder:/home/someone/photographs/of/a/year"
    shown = blocks.table(Table("Error", ("data", "error %"), ((name, "1.0"), ("shapes", "2.0"))))
    assert f'<td class="long">{name}</td><td>1.0</td>' in shown and "<td>shapes</td>" in shown
    assert "td.long { white-space: normal" in render("", [])


def test_names_from_files_are_escaped(tmp_path):
    folder = make_run(tmp_path / "<b>run", "tiny_aib_qt")
    assert main(["report", str(folder), "--stored", "--out", str(tmp_path / "p.html")]) == 0
    assert "<b>" not in (tmp_path / "p.html").read_text()


def test_a_run_with_a_holdout_shows_held_out_images_until_test_images_are_evaluated(run, tmp_path):
    data = "shapes:count=200"
    folder = make_run(tmp_path / "my run", data=data, holdout=0.1)
    found = json.loads((run / "evaluation.json").read_text())["shapes test"]
    evaluations = {f"{data} val": found | {"split": "val", "top1_error": 14.5}}

    def page() -> str:
        (folder / "evaluation.json").write_text(json.dumps(evaluations))
        assert main(["report", str(folder), "--stored"]) == 0
        return (folder / "report.html").read_text()

    text = page()
    assert "14.50%" in text and "held-out error" in text and "test error" not in text
    assert "The test images were not evaluated" in text
    for command in ("eval", "report"):
        assert f"aib {command} '{folder}'" in unescape(text)
    assert gather(open_run(folder), images=20, subset=2).study.split == "val"
    evaluations[f"{data} test own deterministic over probabilities, fp32, seed 0"] = found
    assert "14.50%" in page()
    evaluations[f"{data} test"] = found
    text = page()
    assert "12.50%" in text and "test error" in text and "were not evaluated" not in text


def test_the_test_error_is_shown_where_the_folder_of_images_is_not_there(run, tmp_path):
    folder = make_run(tmp_path / "run", data="folder:photos")
    found = json.loads((run / "evaluation.json").read_text())["shapes test"]
    (folder / "evaluation.json").write_text(json.dumps({"folder:photos test": found}))
    assert main(["report", str(folder), "--stored"]) == 0
    text = (folder / "report.html").read_text()
    assert "12.50%" in text and "test error" in text and "were not evaluated" not in text


def test_stored_measures_nothing_and_uses_the_results_of_interpret(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    options = ["--data", "shapes_spurious", "--foreign", "shapes", "--images", "6", "--quick"]
    assert main(["interpret", str(copy), *options]) == 0
    assert main(["report", str(copy), "--stored"]) == 0
    text = (copy / "report.html").read_text()
    assert "shapes-12" in text and 'alt="Images modified' in text and "Reliability" not in text
    assert "four ways" not in text  # without foreign images there are fewer
    note = "The maps were measured on 6 test images of shapes_spurious (of 4,000, chosen at random)"
    assert note in text
    for found, note in (
        ({"schema": SCHEMA}, "with other weights"),
        ({"schema": SCHEMA - 1}, "another version"),
    ):
        (copy / "interpret.json").write_text(json.dumps(found))
        assert main(["report", str(copy), "--stored"]) == 0
        text = (copy / "report.html").read_text()
        assert note in text and 'alt="Images modified' not in text


def test_every_picture_of_interpret_has_a_caption():
    assert {name.removesuffix(".png") for name in DRAWN if "*" not in name} <= {*CAPTIONS}


def test_each_metric_has_one_value_on_the_page(text):
    """The calibration error is the evaluation's, not that of the images sampled for the page."""
    cards = re.findall(r'<div class="value">([^<]+)</div><div class="what">([^<]+)</div>', text)
    shown = {what: value for value, what in cards}
    assert shown["calibration error"] == "3.00%"
    assert shown["bits per image in the latent (4x12 samples)"] == "20.0"
    for column in ("KL without noise, bits per image", "latent without noise, bits"):
        assert f">{column}</th>" in text  # of the study: other values
    assert not re.search(r"calibration error \d", text)  # no second one in a caption
    auroc = shown["AUROC of the map against the object (3 images)"]
    overview, located = (
        text.split(f"<h3>{title}</h3>")[1].split("</table>")[0]
        for title in ("Accuracy and maps", "Where is the object?")
    )
    assert f"<td>{auroc}</td>" in overview and f"<td>{auroc} (" in located


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
    (folder / "config.json").write_text(json.dumps(config))
    found = {f"{data} test": evaluation(12.5, data) for data in ("cifar10", "svhn")}
    (folder / "evaluation.json").write_text(json.dumps(found))
    assert main(["report", str(folder), "--stored"]) == 0
    text = (folder / "report.html").read_text()
    assert text.count("<td>4.10</td>") == (error is not None)  # beside the run's own data
    assert ("the paper&#39;s error" in text) == (error is not None)
    assert error is None or f"{error}%" in text


def test_several_runs_are_compared_on_one_page(run, tmp_path):
    plain = make_run(tmp_path / "plain", "tiny")
    out = tmp_path / "both.html"
    words = ["report", str(run), str(plain), "--images", "6", "--subset", "2", "--out", str(out)]
    assert main(words) == 0
    page = HtmlPage(out.read_text())
    assert {"comparison", "run0-summary", "run1-summary", "run1-reproduce"} <= page.ids


def test_errors_on_different_images_are_shown_with_their_data(tmp_path):
    folders = []
    for name, data, images in (("a", "shapes", 100), ("b", "shapes", 100), ("c", "shapes", 50)):
        folders.append(make_run(tmp_path / name, data=data))
        found = {f"{data} test": evaluation(12.5, data, images=images)}
        (folders[-1] / "evaluation.json").write_text(json.dumps(found))
    page = tmp_path / "page.html"

    def error_table(*runs) -> str:
        assert main(["report", *map(str, runs), "--stored", "--out", str(page)]) == 0
        return page.read_text().partition('id="run0-summary"')[0]

    note = "The errors were not measured on the same images"
    text = error_table(*folders[:2])
    assert note not in text and "100 images" not in text
    text = error_table(*folders)
    assert note in text and "shapes, 100 images" in text and "shapes, 50 images" in text


def test_a_comparison_says_what_was_not_measured_on_the_same_images(run):
    """Held-out images depend on the run's seed, test images do not."""
    one = replace(gather(open_run(run, "cpu"), stored=True), metrics=[])
    other = replace(one, label="other", settings=one.settings.updated(seed=1))
    val = {"own_evaluation": replace(one.own_evaluation, split="val")}
    note = "The errors were not measured on the same images"
    assert note not in run_page([one, other]) and note in run_page([one, replace(one, **val)])
    assert note in run_page([replace(one, **val), replace(other, **val)])
    study = Study("tiny_aib_qt", 400, 90.0, {}, "not measured", Information(), split="test")
    for change in ({"data": "svhn"}, {"images": 9}, {"seed": 1}):
        pair = [replace(one, study=study), replace(other, study=replace(study, **change))]
        assert "The maps were not measured on the same images" in run_page(pair)


def test_evaluations_are_told_apart_by_the_options_of_their_data(tmp_path):
    folder = make_run(tmp_path / "run")
    how = "over probabilities, fp32, seed 0"
    names = ("shapes test", f"shapes:clutter=2 test own 4x12 {how}")
    found = {name: evaluation(12.5, "shapes") for name in names}
    (folder / "evaluation.json").write_text(json.dumps(found))
    assert main(["report", str(folder), "--stored"]) == 0
    text = (folder / "report.html").read_text()
    assert ">shapes test<" in text and f">shapes:clutter=2 test, {how}<" in text


def test_maps_measured_on_images_that_other_seeds_held_out_are_marked(tmp_path):
    def page(split: str) -> str:
        folders = [make_run(tmp_path / f"{split}{seed}", seed=seed, holdout=0.1) for seed in (0, 1)]
        for folder in folders:
            study = Study("tiny_aib_qt", 400, 90.0, {}, "not measured", Information(), split=split)
            origin = {"data": "shapes", "weights_sha256": sha256(folder / "model.safetensors")}
            (folder / "interpret.json").write_text(json.dumps(study.to_dict() | origin))
        assert main(["report", *map(str, folders), "--stored"]) == 0
        return (folders[0] / "report.html").read_text()

    note = "The maps were not measured on the same images"
    assert note not in page("test") and note in page("val")


@pytest.mark.parametrize("words", [["--data", "nope"], ["--images", "0"], ["--subset", "1"]])
def test_a_wrong_option_writes_no_page(run, tmp_path, words, capsys):
    assert main(["report", str(run), "--out", str(tmp_path / "page.html"), *words]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("page", ["file/page.html", "folder.html"])
def test_a_page_that_cannot_be_written_is_not_measured(run, tmp_path, monkeypatch, capsys, page):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.html").mkdir()
    measure = import_module("aib.report.gather")  # the package has a function of that name
    monkeypatch.setattr(measure, "gather", lambda *_, **__: pytest.fail("measured"))
    assert main(["report", str(run), "--out", str(tmp_path / page)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_stored_calibration_bins_are_drawn_without_measuring(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    path = copy / "evaluation.json"
    evaluations = json.loads(path.read_text())
    bins = {"images": [2, 6], "accuracy": [0.5, 1.0], "confidence": [0.4, 0.9]}
    evaluations["shapes test"]["calibration_bins"] = bins
    path.write_text(json.dumps(evaluations))
    assert main(["report", str(copy), "--stored"]) == 0
    text = (copy / "report.html").read_text()
    assert "On 100 test images of shapes with 4x12 samples; 2 equal bins" in text
    assert "<title>6 images, 100.0% right</title>" in text


def test_the_page_names_the_command_that_made_it(run, tmp_path, monkeypatch):
    """Its options too: another data set, the network of a run."""
    words = ["report", str(run), "--stored", "--out", str(tmp_path / "page.html")]
    monkeypatch.setattr("sys.argv", ["aib", *words])
    assert main(words) == 0
    text = (tmp_path / "page.html").read_text()
    assert f"\naib {shlex.join(words)}</pre>" in text


def test_the_penalty_of_the_released_code_is_not_called_information(run):
    """It differs from the divergence, whose bits the evaluation has, by a hundredfold."""
    content = gather(open_run(run, "cpu"), stored=True)
    assert "Information in the latent" in run_page([content])
    released = replace(content, settings=content.settings.updated(profile="released"))
    page = run_page([released])
    assert "Information in the latent" not in page
    assert "(nats; the total in bits)" in page and "(nats; the" not in run_page([content])


def test_a_damaged_evaluation_is_an_error_of_one_line(run, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "evaluation.json").write_text('{"shapes test": {"data": 7}}')
    assert main(["report", str(copy), "--stored"]) == 2
    error = capsys.readouterr().err.strip()  # older versions of rich put an empty line before it
    assert error.endswith("evaluation.json: shapes test: data must be a string, not 7")
    assert "\n" not in error


def test_terms_that_a_page_uses_are_explained_and_no_others():
    table = blocks.table(Table("Maps", ("run", "AUROC"), (("one", "0.9"),)))
    cards = blocks.cards([("3%", "calibration error")])
    text = render("page", [Section("Maps", "maps", [table, cards])])
    assert "terms" in HtmlPage(text).ids
    below = text.partition('id="terms"')[2]
    assert "<dt>AUROC</dt>" in below and "<dt>calibration error</dt>" in below
    assert "<dt>ROAD</dt>" not in below
    assert f'title="{meaning("AUROC")}">AUROC</th>' in text and '<th scope="col">run</th>' in text


def test_a_summary_has_percent_and_how_the_run_was_made(run):
    information = Information(perplexity=7.5, anchors=[0.0] * 20)
    classes = (ClassMetrics("disc", 3, {"correct": 0.5, "auroc": 0.75}),)
    study = Study("tiny_aib_qt", 400, 90.0, {}, "", information, classes=classes)
    study = replace(study, environment={"command": "aib interpret qt"})
    content = replace(gather(open_run(run, "cpu"), stored=True), study=study, metrics=[])
    own = replace(content.own_evaluation, area=0.25, mask_bits=9)
    for command in ("aib train shapes", None):
        made = {"torch": "2.9.1", "command": command}
        text = unescape(run_page([replace(content, own_evaluation=own, environment=made)]))
        first = command or training_command(content.settings)
        assert re.search(rf">{re.escape(first)}\naib interpret qt\n[^\n]+</pre>", text)
    assert "Trained with torch 2.9.1, seed 0." in text
    assert "<td>model</td><td>tiny_aib_qt</td>" in text  # of all settings
    assert "<td>disc</td><td>3</td><td>50.0</td><td>0.750</td>" in text
    for value, what in (("25.0%", "of each image is open"), ("7.5", "of 20 anchors in use")):
        assert f'<div class="value">{value}</div><div class="what">{what}' in text


def test_the_training_command_parses_to_the_same_settings():
    settings = Settings(
        data="folder:my photos", augment=False, channels_last=True, milestones=(), ema=0.5, lr=0.25
    )
    words = shlex.split(training_command(settings))
    assert words[:2] == ["aib", "train"]
    assert parse(Options, words[2:], "aib train", default=Options()).settings == settings
