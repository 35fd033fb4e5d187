"""A progress bar for long measurements."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

EVERY = 10  # seconds between two lines where there is no terminal
Tick = Callable[[str, int], None]  # (current task, images or steps done since the last call)


def silent(what: str, done: int) -> None:
    """Report no progress."""


@contextmanager
def progress_bar(total: int, transient: bool = True) -> Iterator[Tick]:
    """Show a bar on a terminal's standard error, and a line now and then elsewhere; yields the
    function to call."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeRemainingColumn())
    hidden, said = not console.is_terminal, time.monotonic()
    with Progress(*columns, console=console, disable=hidden, transient=transient) as bar:
        task = bar.add_task("starting", total=total)

        def tick(what: str, done: int) -> None:
            nonlocal said
            bar.update(task, description=what, advance=done)
            if hidden and time.monotonic() - said > EVERY:
                said = time.monotonic()
                print(f"{what}: {bar.tasks[0].percentage:.0f}%", file=sys.stderr, flush=True)

        yield tick
