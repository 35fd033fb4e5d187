"""`aib report`: an HTML page about one run, several runs or a sweep."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from aib.config.validation import check_seed
from aib.errors import AibError
from aib.system.files import check_suffix, check_writable, write_text
from aib.system.progress import progress_bar

if TYPE_CHECKING:
    from aib.report.gather import RunContent

PAGE = "report.html"


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")],
    /,
    out: Path | None = None,
    data: str | None = None,
    root: str | None = None,
    backbone: str | None = None,
    images: int = 1000,
    subset: int = 64,
    stored: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> None:
    """Write one self-contained HTML page: training curves, results beside the paper's, maps,
    calibration, localisation, how to reproduce. It needs no network.

    The results of `aib interpret` are used where a run has them, and measured otherwise.

    Example: aib report runs/cifar10

    Args:
        runs: folders of runs, or hf:owner/name of the Hub; several are compared on one page. Or one
            sweep's folder.
        out: the .html file to write; report.html in the (first) run if not given, or in
            hub/owner/name/COMMIT for a model of the Hub.
        data: data set; the run's own if not given.
        root: folder of the data set's official files.
        backbone: my_module:build, for runs of a network of your own; never imported unasked.
        images: largest number of images for what has to be measured.
        subset: largest number of images for localisation, deletion, insertion and post-hoc maps.
        stored: measure nothing; show only what the run's folder holds.
        seed: seed of the sampled images and of the noise.
        device: cpu or cuda; cuda if there is one and it is not given.
    """
    from aib.report.gather import gather
    from aib.report.sweep_page import sweep_page
    from aib.runs.run import open_runs
    from aib.sweep.plan import PLAN
    from aib.sweep.results import read_results

    if not runs:
        raise AibError("name at least one run")
    if out is not None:
        check_suffix(out, ".html", ".htm")
    if images < 2 or subset < 2:
        raise AibError(f"--images and --subset must be at least 2, not {images} and {subset}")
    if any((run / PLAN).is_file() for run in runs):
        if len(runs) > 1 or data is not None:
            raise AibError("a sweep has a page of its own, with its own data: name it alone")
        write(out or runs[0] / PAGE, sweep_page(read_results(runs[0])))
        return
    check_seed(seed)
    opened = open_runs(runs, device, backbone)
    target = out or opened[0].output / PAGE
    check_writable(target)
    contents = []
    for run in opened:
        # seven modified sets, replaced maps (twice), changed masks, the rest
        with progress_bar(images * (10 + run.model.takes_mask)) as tick:
            contents.append(
                gather(
                    run,
                    data=data,
                    root=root,
                    images=images,
                    subset=subset,
                    seed=seed,
                    stored=stored,
                    like=opened[0],
                    tick=tick,
                )
            )
    write(target, checked_page(contents))


def checked_page(contents: "list[RunContent]") -> str:
    """The page, with a readable error if a run's files were edited."""
    from aib.models.weights import METRICS, RESULT
    from aib.report.run_page import run_page

    try:
        return run_page(contents)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise AibError(
            f"the page cannot be made ({type(error).__name__}: {error}): {METRICS} or {RESULT} "
            "does not hold what aib writes there; remove the file that was edited"
        ) from error


def write(target: Path, text: str) -> None:
    write_text(target, text)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")


COMMAND = report
