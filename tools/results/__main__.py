"""`python -m tools.results`: store the results of runs, and write the tables of the docs."""

import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, arg

from aib.errors import AibError
from aib.system.files import write_json, write_text
from tools.results.collect import added
from tools.results.collect import collect as collect_runs
from tools.results.pages import pages
from tools.results.read import read_results
from tools.results.tables import fill


def collect(
    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN...")],
    /,
    out: Path,
    title: str | None = None,
    note: str | None = None,
    add: bool = False,
) -> None:
    """Write what was trained and measured in these runs into one JSON file.

    For example:
    python -m tools.results collect runs/a runs/b --title "CIFAR-10, VGG" --out results/vgg.json

    Args:
        runs: folders of finished runs, with the results of `aib eval` and `aib interpret` in them.
        out: the file to write.
        title: what these runs are together.
        note: what a reader of the numbers should know.
        add: add to the file, in place of its runs of the same names; title and note stay as they
            are unless given.
    """
    if not add and title is None:
        raise AibError("say with --title what these runs are together")
    found = collect_runs(runs, title or "", note or "")
    if add:
        found = added(out, found)
    write_json(out, found, indent=1)
    print(f"{out}: {len(found['runs'])} runs")


def docs(folder: Annotated[Positional[Path], arg(metavar="FOLDER")] = Path(), /) -> None:
    """Write docs/results/ and the tables of the other pages, all from results/*.json.

    For example: python -m tools.results docs

    Args:
        folder: the root of the checkout.
    """
    for path, text in documents(folder).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)
            print(path)


def documents(folder: Path) -> dict[Path, str]:
    """Every page that holds results, as it should be."""
    results = read_results(folder / "results")
    written = {folder / "docs" / "results" / name: text for name, text in pages(results).items()}
    for path in (folder / "README.md", *sorted((folder / "docs").glob("*.md"))):
        if path.exists():
            written[path] = fill(path.read_text(encoding="utf-8"), results, path)
    return written


def main(argv: list[str]) -> None:
    """Entry point of `python -m tools.results`."""
    tyro.extras.subcommand_cli_from_dict(
        {"collect": collect, "docs": docs},
        args=argv,
        prog="python -m tools.results",
        description="Store the results of runs, and write the tables of the docs.",
        config=(tyro.conf.FlagCreatePairsOff,),
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AibError as error:
        sys.exit(f"python -m tools.results: {error}")
