"""What a person sees of a long job: a live bar on a terminal, plain lines elsewhere."""

import math
import sys
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text


class Reporter(Protocol):
    """Told of the figures at every log interval."""

    def begin(self, total_steps: int, done: int, epochs: int) -> None: ...
    def figures(self, row: dict[str, Any]) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


class Silent:
    """For Python callers and for every process but the first."""

    def begin(self, total_steps: int, done: int, epochs: int) -> None: ...
    def figures(self, row: dict[str, Any]) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


def describe(row: dict[str, Any]) -> str:
    """The figures of one row in one line."""
    parts = [f"loss {row['total']:.3f}", f"nll {row['nll']:.3f}", f"error {row['error']:.2f}%"]
    if row["kl"]:
        parts.append(f"KL {row['kl'] / math.log(2):.1f} bits")
    if row.get("perplexity") is not None:
        parts.append(f"vq {row['quantization']:.1e} commit {row['commitment']:.1e}")
        parts.append(f"anchors {row['perplexity']:.1f}")
    if row["auxiliary"]:
        parts.append(f"aux {row['auxiliary']:.3f}")
    return "  ".join([*parts, f"{row['images_per_second']:,.0f} img/s"])


class PlainLines:
    """One line an interval, for logs and pipes."""

    def begin(self, total_steps: int, done: int, epochs: int) -> None:
        self.total, self.epochs = total_steps, epochs
        self.first: tuple[int, float] | None = None

    def figures(self, row: dict[str, Any]) -> None:
        left = ""
        if self.first is None:
            self.first = (row["step"], row["seconds"])
        elif row["seconds"] > self.first[1]:
            rate = (row["step"] - self.first[0]) / (row["seconds"] - self.first[1])
            left = f"  {(self.total - row['step']) / rate:.0f} s left"
        where = f"epoch {row['epoch'] + 1}/{self.epochs}  step {row['step']}/{self.total}"
        print(f"{where}  {describe(row)}{left}", flush=True)

    def note(self, text: str) -> None:
        print(text, flush=True)

    def close(self) -> None: ...


class LiveBar:
    """A bar that stays in place, with the newest figures below it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.newest = Text()  # a line of its own: beside the bar it would not fit 80 columns
        self.live = Live(Group(self.bar, self.newest), console=self.console)

    def begin(self, total_steps: int, done: int, epochs: int) -> None:
        self.epochs = epochs
        self.task = self.bar.add_task("starting", total=total_steps, completed=done)
        self.live.start()

    def figures(self, row: dict[str, Any]) -> None:
        where = f"epoch {row['epoch'] + 1}/{self.epochs}"
        self.bar.update(self.task, completed=row["step"], description=where)
        self.newest.plain = describe(row)

    def note(self, text: str) -> None:
        self.console.print(text, highlight=False)

    def close(self) -> None:
        self.live.stop()


def reporter() -> Reporter:
    """The one that suits where the output goes."""
    return LiveBar() if sys.stdout.isatty() else PlainLines()
