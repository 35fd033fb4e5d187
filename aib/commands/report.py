"""`aib report`: an HTML page about one run or several."""

from pathlib import Path
from typing import Annotated

import tyro

from aib.errors import AibError
from aib.system.files import check_suffix, write_text

PAGE = "report.html"


def report(
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = (),
    /,
    run: tuple[Path, ...] = (),
    out: Path | None = None,
    backbone: str | None = None,
) -> None:
    """Write one self-contained HTML page of what train, eval and interpret measured. It names the
    command for what is missing.

    Example: aib report runs/cifar10

    Args:
        folders: the same as --run.
        run: folders of runs, or hf:owner/name of the Hub; several are compared on one page.
        out: the .html file to write (default: report.html in the first run's folder).
        backbone: my_module:build, for runs of a network of your own; never imported unasked.
    """
    from aib.report.gather import gather
    from aib.report.run_page import run_page
    from aib.runs.run import open_runs

    if not (folders or run):
        raise AibError("name a run")
    if out is not None:
        check_suffix(out, ".html", ".htm")
    runs = open_runs((*folders, *run), "cpu", backbone)
    target = out or runs[0].output / PAGE
    try:
        page = run_page([gather(one) for one in runs])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise AibError(f"a run's files were edited and cannot be shown ({error})") from error
    write_text(target, page)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")


COMMAND = report
