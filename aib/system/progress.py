"""A progress bar for long measurements."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Tick = Callable[[str, int], None]  # (current task, images or steps done since the last call)


def silent(what: str, done: int) -> None:
    """Report no progress."""


@contextmanager
def progress_bar(total: int, transient: bool = True) -> Iterator[Tick]:
    """Show a bar on a terminal's standard error; yields the function to call."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeRemainingColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=transient) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda what, done: bar.update(task, description=what, advance=done)
