"""`python -m tools.results`: store the results of runs, and write the tables of the docs."""

import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, arg

from aib.errors import AibError
from aib.system.files import read_json, write_text
from tools.results.collect import collect as collect_runs, collect_measured
from tools.results.pages import documents
from tools.results.store import write_runs


def collect(
    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN...")],
    /,
    out: Path,
    title: str = "",
    note: str = "",
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
        add: add to the file; a run replaces the one of the same name.
    """
    content = collect_runs(runs, title, note)
    if add:
        old = read_json(out)
        if old is None:
            raise AibError(f"there is no {out} to add runs to")
        by_name = {run["name"]: run for run in (*old["runs"], *content["runs"])}
        content = {
            **old,
            **{key: value for key, value in content.items() if value},
            "runs": list(by_name.values()),
        }
    write_runs(out, content)
    print(f"{out}: {len(content['runs'])} runs")


def measured(
    folders: Annotated[Positional[tuple[Path, ...]], arg(metavar="FOLDER...")],
    /,
    out: Path,
    title: str = "",
    note: str = "",
) -> None:
    """Write what was measured of models on other data than their own into one JSON file.

    Args:
        folders: folders that `aib eval` or `aib interpret` wrote into.
        out: the file to write.
        title: what these models are together.
        note: what a reader of the numbers should know.
    """
    write_runs(out, collect_measured(folders, title, note))


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


def main(argv: list[str]) -> None:
    """Entry point of `python -m tools.results`."""
    tyro.extras.subcommand_cli_from_dict(
        {"collect": collect, "measured": measured, "docs": docs},
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
