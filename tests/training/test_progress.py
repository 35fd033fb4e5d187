"""What a person sees of a training."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from aib.settings import Settings
from aib.training.loop import fit
from aib.training.progress import LiveBar, PlainLines, Reporter, describe
from tests.training.test_loop import SMALL, images, tiny

ROW = {
    "step": 7,
    "epoch": 0,
    "seconds": 3.0,
    "total": 1.5,
    "nll": 1.25,
    "kl": 6.931471805599453,  # ten bits
    "quantization": 2e-4,
    "commitment": 3e-4,
    "auxiliary": 0.0,
    "error": 12.5,
    "perplexity": 9.75,
    "images_per_second": 12_345.6,
}


def watched(report: Reporter, settings: Settings = SMALL) -> None:
    report.note("before it begins")
    fit(tiny(), images(), settings, report=report, validation=images(8, seed=1))
    report.note("after it has ended")


def test_a_row_is_told_in_one_line() -> None:
    assert describe(ROW) == (
        "loss 1.500  nll 1.250  error 12.50%  KL 10.0 bits  vq 2.0e-04 commit 3.0e-04  "
        "anchors 9.8  12,346 img/s"
    )
    plain = ROW | {"kl": 0.0, "perplexity": None, "auxiliary": 0.5}
    assert describe(plain) == "loss 1.500  nll 1.250  error 12.50%  aux 0.500  12,346 img/s"


def test_plain_lines_have_an_end_each(capsys: pytest.CaptureFixture) -> None:
    watched(PlainLines(), replace(SMALL, epochs=1))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "before it begins"
    assert lines[1].startswith("epoch 1/1  step 3/5  loss ")
    assert lines[2].startswith("epoch 1/1  step 5/5  loss ")
    assert lines[2].endswith("0 s left")
    assert lines[3].startswith("epoch 1: held-out error ")


def test_the_bar_shows_the_epoch_the_figures_and_the_notes() -> None:
    screen = io.StringIO()
    watched(LiveBar(Console(file=screen, force_terminal=True, width=200)))
    shown = screen.getvalue()
    for text in ("before it begins", "epoch 2/2", "error", "img/s", "held-out error"):
        assert text in shown
