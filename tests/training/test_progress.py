"""Progress reports of a training."""

import io
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import aib
from aib.system import progress
from aib.training import loop
from aib.training.progress import BarReporter, LineReporter, Reporter, format_metrics
from aib.training.step import TrainingStep
from tests.helpers import SMALL, RecordingReporter, image_set, small_model

ROW = {
    "step": 7, "epoch": 0, "total": 1.5, "nll": 1.25, "kl": 10 * math.log(2), "quantization": 2e-4,
    "commitment": 3e-4, "auxiliary": 0.0, "error": 12.5, "perplexity": 9.75,
    "images_per_second": 12_345.6, "profile": "paper",
}  # fmt: skip


def test_a_training_in_python_shows_its_progress_unless_told_not_to(capsys):
    s = replace(SMALL, epochs=1)
    aib.fit(small_model(num_classes=4), image_set(), s)
    shown = capsys.readouterr().out
    assert "epoch 1/1  step 5/5  loss" in shown
    aib.fit(small_model(num_classes=4), image_set(), s, progress=False)
    assert capsys.readouterr().out == ""


def test_a_row_is_formatted_in_one_line() -> None:
    assert format_metrics(ROW) == (
        "loss 1.500  nll 1.250  error 12.50%  KL 10.0 bits  vq 2.0e-04 commit 3.0e-04  "
        "anchors 9.8  12,346 img/s"
    )
    masked = {"kl": 0.0, "perplexity": None, "auxiliary": 0.5, "area": 0.251, "mask_bits": 4.0}
    masked["closed_share"] = 0.031
    assert format_metrics(ROW | masked) == (
        "loss 1.500  nll 1.250  error 12.50%  aux 0.500  area 25%, 3% of masks closed  12,346 img/s"
    )


def show(report: Reporter) -> None:
    report.message("before it begins")
    report.begin(total_steps=10, done=0, epochs=2)
    report.metrics(ROW | {"seconds_left": 500.0})
    report.metrics(ROW | {"step": 9, "epoch": 1, "seconds_left": 90.0})
    report.close()


def test_lines_show_progress_and_the_remaining_time(capsys: pytest.CaptureFixture) -> None:
    show(LineReporter())
    row = format_metrics(ROW)
    assert capsys.readouterr().out.splitlines() == [
        "before it begins",
        f"epoch 1/2  step 7/10  {row}  500 s left",
        f"epoch 2/2  step 9/10  {row}  90 s left",
    ]


def test_a_long_evaluation_reports_now_and_then_without_a_terminal(capsys, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with LineReporter().task("evaluating", 40) as tick:
        for _ in range(4):
            clock.now += 6
            tick("evaluating", 10)
    assert capsys.readouterr().err.splitlines() == ["evaluating: 50%", "evaluating: 100%"]


def test_the_bar_shows_epoch_metrics_messages_and_the_remaining_time() -> None:
    screen = io.StringIO()
    show(BarReporter(Console(file=screen, force_terminal=True, width=200)))
    for text in ("before it begins", "epoch 2/2", "9/10", "error 12.50%", "img/s", "0:01:30 left"):
        assert text in screen.getvalue()


def test_an_evaluation_has_a_bar_of_its_own_during_and_after_the_training(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=200)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    report = BarReporter(console)
    report.begin(total_steps=10, done=0, epochs=2)
    with report.task("evaluating", 30) as tick:
        tick("evaluating", 20)
        report.close()
    assert "20/30" in screen.getvalue()
    screen.truncate(0)
    with report.task("evaluating", 50) as tick:
        tick("evaluating", 20)
    assert "evaluating" in screen.getvalue()


def test_the_time_left_includes_all_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs of five steps of 6 s; 10 held-out images per epoch and 20 test images."""
    clock, step = SimpleNamespace(now=0.0), TrainingStep.__call__

    def timed_step(*arguments: Any) -> Any:
        clock.now += 6
        return step(*arguments)

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(TrainingStep, "__call__", timed_step)
    report, s = RecordingReporter(), replace(SMALL, log_every=1)
    data = {"validation": image_set(10), "test": image_set(20)}
    aib.fit(small_model(num_classes=4), image_set(), s, report=report, **data)
    left = [row["seconds_left"] for row in report.rows]
    image = 4 * 6 / 3 / 8  # four attention samples, a third of a step of eight images
    before = [6 * n + 40 * image for n in (9, 8, 7, 6, 5)]
    assert left == pytest.approx(before + [6 * n + 30 * image for n in (4, 3, 2, 1, 0)])
