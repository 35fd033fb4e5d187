"""A progress bar for long measurements."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY = 10  # seconds between two lines where there is no terminal
Tick = Callable[[str, float], None]  # (current task, images or steps done since the last call)


def silent(what: str, done: float) -> None:
    """Report no progress."""


@contextmanager
def progress_bar(total: int, transient: bool = True) -> Iterator[Tick]:
    """Show a bar on a terminal's standard error, and a line now and then elsewhere; yields the
    function to call."""
    if not sys.stderr.isatty():
        yield _lines(total)
        return
    # Imported only here: a short command without a terminal does not wait for it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=transient) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda what, done: bar.update(task, description=what, advance=done)


def _lines(total: int) -> Tick:
    """A line on standard error every few seconds."""
    so_far, last = 0.0, time.monotonic()

    def tick(what: str, done: float) -> None:
        nonlocal so_far, last
        so_far += done
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            print(f"{what}: {min(so_far / max(total, 1), 1):.0%}", file=sys.stderr, flush=True)

    return tick
