"""The page: self-contained, readable without seeing it, and without errors in a browser."""

import json
import re
import shlex
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
import torch

from aib.cli import main
from aib.commands.options import parse
from aib.commands.train import Options
from aib.interpret.study import SCHEMA
from aib.report.calibration import binned
from aib.report.reproduce import command_of
from aib.report.svg import Series, bar_chart, line_chart, ticks
from aib.settings import Settings
from tests.interpret.small import make_run

VOID = {"meta", "link", "img", "br", "line", "polyline", "circle", "rect"}


class Page(HTMLParser):
    """Checks nesting, and collects pictures, links and addresses."""

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.addresses, self.tags, self.ids = [], [], [], set(), set()
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.add(tag)
        self.ids.add(found.get("id"))
        if tag == "img":
            self.images.append(found)
        self.addresses += [found[k] for k in ("src", "href") if k in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a short history, as `aib train` writes it."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "qt")
    rows = []
    for step in range(10, 50, 10):
        terms = {"total": 3 / step, "nll": 2 / step, "kl": 5.0, "quantization": 0.0}
        terms |= {"commitment": 0.0, "auxiliary": 0.0, "error": 90 - step, "lr": 0.1}
        rows.append({"step": step, "epoch": step // 20, **terms, "perplexity": 9.0})
    rows.append(
        {"step": 20, "epoch": 0, "anchors": [0.1 * i for i in range(20)], "usage": [1] * 20}
    )
    rows.append(
        {"step": 40, "epoch": 1, "anchors": [0.2 * i for i in range(20)], "usage": [1] * 20}
    )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    figures = {"data": "shapes", "split": "test", "classes": "own", "images": 100}
    figures |= {"top1_error": 12.5, "top1_interval": [10.0, 15.0], "top5_error": 1.0}
    figures |= {"top5_interval": [0.5, 2.0], "nll": 0.4, "calibration_error": 3.0}
    figures |= {"kl_bits": 20.0, "samples": "4x12", "averaged": "probabilities"}
    (folder / "evaluation.json").write_text(json.dumps({"shapes test": figures}))
    return folder


@pytest.fixture(scope="module")
def text(run):
    assert main(["report", str(run), "--images", "12", "--subset", "3"]) == 0
    return (run / "report.html").read_text()


def test_the_page_parses_and_has_every_part(text):
    page = Page(text)
    parts = {"summary", "maps", "evaluation", "trust", "training", "anchors", "classes"}
    assert parts | {"reproduce"} <= page.ids
    for words in ("12.50%", "Reliability", "Anchors over training", "Deletion", "aib train"):
        assert words in text
    assert re.search(r"Undecided|decorative|uses the map", text)


def test_every_picture_says_what_it_shows(text):
    page = Page(text)
    assert page.images and all(len(found.get("alt", "")) > 5 for found in page.images)
    drawings = re.findall(r"<svg[^>]*>", text)
    assert drawings and all(re.search(r'role="img" aria-label="[^"]{10,}"', d) for d in drawings)


def test_nothing_is_fetched_and_nothing_runs(text):
    page = Page(text)
    assert "script" not in page.tags
    assert all(a.startswith(("data:", "#")) for a in page.addresses)
    assert "http://" not in text and "https://" not in text and "@import" not in text
    inner = {a[1:] for a in page.addresses if a.startswith("#")}
    assert inner <= page.ids


def test_it_is_made_for_phones_and_for_dark_rooms(text):
    assert 'name="viewport"' in text and "prefers-color-scheme: dark" in text
    tables, scrolling = text.count("<table"), text.count('class="scroll"')
    assert tables == scrolling > 3


def test_names_from_files_cannot_become_html(tmp_path):
    folder = make_run(tmp_path / "<b>run", "tiny_aib_qt")
    assert main(["report", str(folder), "--stored", "--out", str(tmp_path / "p.html")]) == 0
    assert "<b>" not in (tmp_path / "p.html").read_text()


def test_stored_measures_nothing_and_takes_what_interpret_found(run, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    options = ["--foreign", "shapes", "--images", "6", "--quick"]
    assert main(["interpret", str(copy), *options]) == 0
    assert main(["report", str(copy), "--stored"]) == 0
    text = (copy / "report.html").read_text()
    assert "shapes-12" in text and 'alt="Images modified' in text and "Reliability" not in text


def test_the_page_says_which_images_the_maps_were_measured_on(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    options = ["--data", "shapes_spurious", "--foreign", "shapes", "--images", "6", "--quick"]
    assert main(["interpret", str(copy), *options]) == 0
    assert main(["report", str(copy), "--stored"]) == 0
    said = "The maps were measured on 6 test images of shapes_spurious (of 4,000, chosen at random)"
    assert said in (copy / "report.html").read_text()


def test_calibration_and_the_maps_auroc_are_stated_once(text):
    """The error of the evaluation, not that of the images drawn for the page; and one AUROC."""
    cards = re.findall(r'<div class="value">([^<]+)</div><div class="what">([^<]+)</div>', text)
    shown = {what: value for value, what in cards}
    assert shown["calibration error"] == "3.00%"
    assert shown["bits an image in the latent"] == "20.0"
    assert not re.search(r"calibration error \d", text)  # no second one in a caption
    auroc = shown["AUROC of the map against the object"]
    overview, located = (
        text.split(f"<h3>{title}</h3>")[1].split("</table>")[0]
        for title in ("Accuracy and maps", "Where is the object?")
    )
    assert f"<td>{auroc}</td>" in overview and f"<td>{auroc} (" in located


def test_figures_and_pictures_of_other_weights_are_not_taken(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert main(["interpret", str(copy), "--foreign", "shapes", "--images", "6", "--quick"]) == 0
    for found, said in (
        ({"schema": SCHEMA}, "of other weights"),
        ({"schema": SCHEMA - 1}, "another version"),
        ({}, "another version"),
    ):
        (copy / "interpret.json").write_text(json.dumps(found))
        assert main(["report", str(copy), "--stored"]) == 0
        text = (copy / "report.html").read_text()
        assert said in text and 'alt="Images modified' not in text


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"model": "vgg_aib_qt"}, "4.10"),
        ({"model": "vgg_att3"}, "6.34"),
        ({"model": "vgg_aib_qt", "width": 0.5}, None),
        ({"model": "vgg_aib_qt", "attention_depth": 3}, None),
        ({"model": "vgg_aib_qt", "lambda_a": 0.1}, None),
        ({"model": "vgg_aib_qt", "attention_guide": True}, None),
        ({"model": "tiny_aib_qt"}, None),
    ],
)
def test_the_papers_error_stands_beside_models_of_its_form(settings, error, tmp_path):
    folder = make_run(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    config["settings"] = Settings(data="cifar10").updated(**settings).to_dict()
    (folder / "config.json").write_text(json.dumps(config))
    assert main(["report", str(folder), "--stored"]) == 0
    text = (folder / "report.html").read_text()
    assert ("the paper&#x27;s error" in text) == (error is not None)
    assert error is None or f"{error}%" in text


def test_several_runs_are_compared_on_one_page(run, tmp_path):
    plain = make_run(tmp_path / "plain", "tiny")
    out = tmp_path / "both.html"
    words = ["report", str(run), str(plain), "--images", "6", "--subset", "2", "--out", str(out)]
    assert main(words) == 0
    page = Page(out.read_text())
    assert {"comparison", "run0-summary", "run1-summary", "run1-reproduce"} <= page.ids


def test_no_error_in_a_browser(text, run, tmp_path):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no browser here")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    flags += "--disable-background-networking --disable-component-update --enable-logging=stderr"
    done = subprocess.run(
        [
            chromium,
            *flags.split(),
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            f"file://{run / 'report.html'}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "<main>" in done.stdout
    assert "CONSOLE" not in done.stderr, done.stderr


def test_calibration_of_known_answers():
    sure = torch.tensor([0.9] * 10 + [0.55] * 4)
    right = torch.tensor([True] * 9 + [False] + [True] * 4)
    found = binned(sure, right, bins=10)
    assert found.counts[8] == 10 and found.accuracy[8] == pytest.approx(0.9)
    assert found.counts[5] == 4 and found.accuracy[5] == 1
    assert found.error == pytest.approx(100 * (4 / 14) * 0.45, rel=1e-5)
    assert found.images == 14


def test_calibration_error_is_that_of_evaluation():
    from torchmetrics.functional.classification import multiclass_calibration_error

    torch.manual_seed(0)
    probability = torch.randn(200, 5).softmax(-1)
    labels = torch.randint(5, (200,))
    sure, guess = probability.max(-1)
    expected = multiclass_calibration_error(probability, labels, 5, n_bins=15)
    assert binned(sure, guess == labels).error == pytest.approx(100 * float(expected), rel=1e-4)


def test_ticks_are_round_and_inside():
    assert ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert ticks(0.013, 0.049) == pytest.approx([0.02, 0.03, 0.04])
    assert ticks(3, 3) == [3]


def test_a_chart_survives_gaps_single_points_and_flat_lines():
    nan = float("nan")
    assert "polyline" in line_chart([Series("", [0, 1, 2], [1, nan, 1])], "gap")
    assert "circle" in line_chart([Series("", [1], [1])], "point")
    assert line_chart([Series("", [0, 1], [nan, nan])], "nothing") == ""
    assert bar_chart([0, 1, 2], [0, 0], "empty").count("<rect") == 2


def test_the_command_to_reproduce_a_run_gives_its_settings_back():
    settings = Settings(
        data="folder:my photos", augment=False, channels_last=True, milestones=(), ema=0.5, lr=0.25
    )
    words = shlex.split(command_of(settings))
    assert words[:2] == ["aib", "train"]
    assert parse(Options, words[2:], "aib train", default=Options()).settings == settings


@pytest.mark.parametrize("words", [["--data", "nope"], ["--images", "0"], ["--subset", "1"]])
def test_a_mistake_on_the_command_line_is_no_page(run, tmp_path, words, capsys):
    assert main(["report", str(run), "--out", str(tmp_path / "page.html"), *words]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
