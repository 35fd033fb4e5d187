"""A progress bar for long measurements, on a terminal's standard error only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from aib.interpret.per_image import Tick


@contextmanager
def progress(total: int, transient: bool = True) -> "Iterator[Tick]":
    """Show a bar; yields a function to call with (current task, images done since then)."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeRemainingColumn())
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=transient
    ) as bar:
        task = bar.add_task("starting", total=total)

        def tick(what: str, images: int) -> None:
            bar.update(task, description=what, advance=images)

        yield tick
