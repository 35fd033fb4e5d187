"""`python -m tools.results`: keep the figures of runs, and write the page of all that were kept."""

import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, arg

from aib.errors import AibError
from aib.files import write_whole
from tools.results.collect import collect as collect_runs
from tools.results.collect import write
from tools.results.page import page as make_page


def collect(
    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN...")],
    /,
    out: Path,
    title: str,
    note: str = "",
) -> None:
    """Write what was trained and measured in these runs into one JSON file.

    For example:
    python -m tools.results collect runs/a runs/b --title "CIFAR-10, VGG" --out results/vgg.json

    Args:
        runs: folders of finished runs; what `aib eval` and `aib interpret` found is taken along.
        out: the file to write.
        title: what these runs are together.
        note: a sentence that a reader of the figures should know.
    """
    found = collect_runs(runs, title, note)
    write(out, found)
    print(f"{out}: {len(found['runs'])} runs")


def page(
    folder: Annotated[Positional[Path], arg(metavar="FOLDER")] = Path("results"),
    /,
    out: Path = Path("docs/results.md"),
) -> None:
    """Write one page of tables from all results files of a folder.

    For example: python -m tools.results page results --out docs/results.md

    Args:
        folder: where the files of `collect`, `aib bench` and `aib sweep` are.
        out: the file to write.
    """
    text = make_page(folder)
    write_whole(out, lambda partial: partial.write_text(text, encoding="utf-8"))
    print(f"{out}: {len(text.splitlines())} lines")


def main(argv: list[str]) -> None:
    """Entry point of `python -m tools.results`."""
    tyro.extras.subcommand_cli_from_dict(
        {"collect": collect, "page": page},
        args=argv,
        prog="python -m tools.results",
        description="Keep the results of runs, and write their page.",
        config=(tyro.conf.FlagCreatePairsOff,),
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AibError as error:
        sys.exit(f"python -m tools.results: {error}")
