"""Progress reports of a training."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import aib
from aib.config.settings import Settings
from aib.data import ImageSet
from aib.evaluation.error import Evaluation, evaluate
from aib.models.classifier import Classifier
from aib.training.interrupt import SignalCatcher
from aib.training.loop import Loop
from aib.training.progress import (
    BarReporter,
    DurationEstimate,
    LineReporter,
    Reporter,
    format_metrics,
)
from aib.training.step import TrainingStep
from tests.helpers import SMALL, RecordingReporter, image_set, small_model

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
    "profile": "paper",
}


def test_a_training_in_python_shows_its_progress_unless_told_not_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    s = replace(SMALL, epochs=1, ema=0.999)
    aib.fit(small_model(num_classes=4), image_set(), s)
    shown = capsys.readouterr().out
    assert "epoch 1/1  step 5/5  loss" in shown
    assert "warning: after 5 steps the averaged weights" in shown
    aib.fit(small_model(num_classes=4), image_set(), s, progress=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("done", [0, 5])
def test_the_expected_time_is_reported_once_from_the_steps_after_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, done: int
) -> None:
    """A clock that a step moves by 2 s, and the first one by 60 s more; 15 steps in 3 epochs.

    An evaluation moves it by 1 s per image: 8 of them after the second and after the last epoch.
    """
    report = RecordingReporter()
    evaluation = evaluate(small_model(num_classes=4), image_set(8))
    clock = [100.0]
    monkeypatch.setattr("aib.training.loop.time.monotonic", lambda: clock[0])
    s = replace(SMALL, epochs=3, evaluate_every=2)
    loop = Loop(small_model(num_classes=4), image_set(), s, image_set(8), report=report)
    assert loop.total_steps == 15
    loop.step, take_step = done, loop.take_step.__class__.__call__

    def slow_step(self: TrainingStep, *arguments: Any) -> Any:
        clock[0] += 2.0 if loop.step > done else 62.0
        return take_step(self, *arguments)

    def slow_evaluation(s: Settings, model: Classifier, data: ImageSet, **more: Any) -> Evaluation:
        clock[0] += len(data)
        logits = more.get("logits")
        if logits is not None:
            logits.append((torch.zeros(8, 4), data.labels))
        return evaluation

    monkeypatch.setattr(TrainingStep, "__call__", slow_step)
    monkeypatch.setattr("aib.training.loop.evaluate_by", slow_evaluation)
    with SignalCatcher() as stop:
        loop.train(stop)
    expected = {0: "about 46 s for 3 epochs", 5: "about 36 s for 2 epochs"}[done]
    assert [text for text in report.messages if "about" in text] == [f"{expected} on this machine"]


def test_slow_steps_of_the_warm_up_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten steps of 20 s and 990 of 0.5 s; without the warm-up they take 500 s."""
    report, clock = RecordingReporter(), [100.0]
    monkeypatch.setattr("aib.training.progress.time.monotonic", lambda: clock[0])
    estimate = DurationEstimate(report, 1000, 500, lambda: 40.0, warm_up=10)
    for step in range(1000):
        clock[0] += 20.0 if step < 10 else 0.5
        estimate.count()
    assert report.messages == ["about 9 min for 2 epochs on this machine"]


def test_a_row_is_formatted_in_one_line() -> None:
    assert format_metrics(ROW) == (
        "loss 1.500  nll 1.250  error 12.50%  KL 10.0 bits  vq 2.0e-04 commit 3.0e-04  "
        "anchors 9.8  12,346 img/s"
    )
    masked = {"kl": 0.0, "perplexity": None, "auxiliary": 0.5, "area": 0.251, "mask_bits": 4321.0}
    assert format_metrics(ROW | masked) == (
        "loss 1.500  nll 1.250  error 12.50%  aux 0.500  area 25% passes 4,321 bits  12,346 img/s"
    )


def show(report: Reporter) -> None:
    report.message("before it begins")
    report.begin(total_steps=10, done=0, epochs=2)
    report.metrics(ROW)
    report.metrics(ROW | {"step": 9, "epoch": 1, "seconds": 5.0})
    report.close()


def test_lines_show_progress_and_the_remaining_time(capsys: pytest.CaptureFixture) -> None:
    show(LineReporter())
    row = format_metrics(ROW)
    assert capsys.readouterr().out.splitlines() == [
        "before it begins",
        f"epoch 1/2  step 7/10  {row}",
        f"epoch 2/2  step 9/10  {row}  1 s left",  # two steps took two seconds
    ]


def test_the_bar_shows_epoch_metrics_and_messages() -> None:
    screen = io.StringIO()
    show(BarReporter(Console(file=screen, force_terminal=True, width=200)))
    for text in ("before it begins", "epoch 2/2", "9/10", "error 12.50%", "img/s"):
        assert text in screen.getvalue()
