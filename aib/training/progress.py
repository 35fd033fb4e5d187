"""Progress of a training: a live bar on a terminal, plain lines elsewhere."""

import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from aib.config.profiles import get_profile
from aib.system.progress import Tick, progress_bar, silent


class Reporter:
    """Receives the metrics at every log interval, and messages; this one ignores them.

    Beside the logged metrics a row has `profile`, and `seconds_left` with all evaluations.
    """

    def begin(self, total_steps: int, done: int, epochs: int) -> None: ...
    def metrics(self, row: dict[str, Any]) -> None: ...
    def message(self, text: str) -> None: ...
    def close(self) -> None: ...

    def task(self, what: str, total: int) -> AbstractContextManager[Tick]:
        """Receives the progress of an evaluation of `total` images inside the `with`."""
        return nullcontext(silent)


class LineReporter(Reporter):
    """One line per log interval, for logs and pipes."""

    def begin(self, total_steps: int, done: int, epochs: int) -> None:
        self.total, self.epochs = total_steps, epochs

    def metrics(self, row: dict[str, Any]) -> None:
        position = f"epoch {row['epoch'] + 1}/{self.epochs}  step {row['step']}/{self.total}"
        print(f"{position}  {format_metrics(row)}  {row['seconds_left']:.0f} s left", flush=True)

    def message(self, text: str) -> None:
        print(text, flush=True)

    def task(self, what: str, total: int) -> AbstractContextManager[Tick]:
        return progress_bar(total)


class BarReporter(Reporter):
    """A progress bar with the latest metrics below it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.latest = Text()  # on its own line: beside the bar it would not fit 80 columns
        self.live = Live(Group(self.bar, self.latest), console=self.console)

    def begin(self, total_steps: int, done: int, epochs: int) -> None:
        self.epochs = epochs
        self.steps = self.bar.add_task("starting", total=total_steps, completed=done, left="")
        self.live.start()

    def metrics(self, row: dict[str, Any]) -> None:
        position = f"epoch {row['epoch'] + 1}/{self.epochs}"
        left = f"{timedelta(seconds=round(row['seconds_left']))} left"
        self.bar.update(self.steps, completed=row["step"], description=position, left=left)
        self.latest.plain = format_metrics(row)

    def message(self, text: str) -> None:
        self.console.print(Text(text))  # a string's brackets would be markup

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Tick]:
        if not self.live.is_started:  # after the training
            with progress_bar(total) as tick:
                yield tick
            return
        task = self.bar.add_task(what, total=total, left="")
        yield lambda _, done: self.bar.advance(task, done)
        self.bar.remove_task(task)

    def close(self) -> None:
        self.live.stop()


def make_reporter() -> Reporter:
    """A bar on a terminal, lines elsewhere."""
    return BarReporter() if sys.stdout.isatty() else LineReporter()


def format_metrics(row: dict[str, Any]) -> str:
    """The metrics of one row in one line."""
    parts = [f"loss {row['total']:.3f}", f"nll {row['nll']:.3f}", f"error {row['error']:.2f}%"]
    if row["kl"] and get_profile(row["profile"]).exact_kl:
        parts.append(f"KL {row['kl'] / math.log(2):.1f} bits")
    elif row["kl"]:  # the released code's term measures no information
        parts.append(f"penalty {row['kl']:.1f}")
    if row.get("perplexity") is not None:
        parts.append(f"vq {row['quantization']:.1e} commit {row['commitment']:.1e}")
        parts.append(f"anchors {row['perplexity']:.1f}")
    if row["auxiliary"]:
        parts.append(f"aux {row['auxiliary']:.3f}")
    if row.get("mask_bits") is not None:
        parts.append(f"area {row['area']:.0%}, {row['closed_share']:.0%} of masks closed")
    rate = row["images_per_second"]
    return "  ".join([*parts, f"{rate:,.0f} img/s" if rate >= 10 else f"{rate:.1f} img/s"])
