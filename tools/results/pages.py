"""The pages of docs/results/, and the tables between markers in the other pages.

A marker `<!-- table: NAME WORDS -->` names a table of `tables.OF_ALL`, or one of `tables.OF_RUNS`
and the files of results/ that it shows, without their ending. `<!-- end -->` ends the table.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from aib.config.validation import reject_unknown
from aib.data.specs import SPECS
from aib.figures.table import Table
from tools.results import tables
from tools.results.maps import boxes
from tools.results.measured import measured
from tools.results.store import Results, RunsFile, StoredRun, by_recipe, data_set, read_results
from tools.results.tables import HELD_OUT, OF_ALL, OF_RUNS, OWN_TEST_IMAGES, title

GENERATED = "Generated from `results/` by `python -m tools.results docs`; do not edit."
INDEX = f"""# Results

{GENERATED}

- Errors are top-1 errors in percent on the test images after the last epoch. Brackets hold the 95%
  interval of one run, and ± is the standard deviation over seeds. Test errors chose no epoch and no
  run.
- The paper's numbers stand beside models that are built as in the paper, whatever the recipe.
- {HELD_OUT} marks errors on held-out images. {OWN_TEST_IMAGES} marks runs on shapes whose test
  images depend on the seed of the run.
- `aib train PRESET --model MODEL` repeats a row with a preset. The files in
  [`results/`](../../results) hold every setting, the versions, the hardware and the command.
- [Can I trust the map?](../trust.md) explains the metrics. [Findings](../findings.md) has our
  conclusions.

| page | runs | models |
|---|---|---|
"""
BLOCK = re.compile(r"^<!-- table: (.+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


def documents(root: Path) -> dict[Path, str]:
    """Every page that holds results, as it should be."""
    results = read_results(root / "results")
    made = {root / "docs" / "results" / name: text for name, text in pages(results).items()}
    for path in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        if path.exists():
            made[path] = fill(path.read_text(encoding="utf-8"), results)
    return made


def fill(text: str, results: Results) -> str:
    """Return the page with every table between markers made anew."""

    def table(match: re.Match[str]) -> str:
        made = "\n".join(markdown(make_table(results, *match[1].split())))
        return f"<!-- table: {match[1]} -->\n{made}\n<!-- end -->"

    return BLOCK.sub(table, text)


def make_table(results: Results, name: str, *words: str) -> Table:
    """The table of this name: of all results, or of the runs in these files."""
    reject_unknown([name], [*OF_ALL, *OF_RUNS], "no table is called")
    if name in OF_ALL:
        return OF_ALL[name](results, *words)
    reject_unknown(words, results.files, "no file of runs is called")
    runs = [run for word in words for run in results.files[word].runs]
    runs = [run for run in runs if not run.model.endswith("_evaluator")]
    return OF_RUNS[name](by_recipe(runs), runs)


def pages(results: Results) -> dict[str, str]:
    """The pages of docs/results/ by file name: one per data set, one of speed, and an index."""
    known = [*SPECS]
    names = {data_set(run.data) for run in results.runs}
    ordered = sorted(names, key=lambda name: (known.index(name) if name in known else 99, name))
    made = {f"{name}.md": data_page(results, name) for name in ordered}
    index = INDEX
    for name in ordered:
        runs = [run for run in results.runs if data_set(run.data) == name]
        models = ", ".join(f"`{model}`" for model in dict.fromkeys(run.model for run in runs))
        index += f"| [{title(name)}]({name}.md) | {len(runs)} | {models} |\n"
    for name, content in results.others.items():
        if content["kind"] == "measured":
            sections = [line for table in measured(content) for line in section(table)]
            made[f"{name}.md"] = page(content["title"], [*sections, f"\n{content['note']}"])
            index += f"| [{content['title']}]({name}.md) | | |\n"
    if results.benchmarks:
        made["speed.md"] = page(
            "Speed", [*section(tables.speed(results)), *section(tables.latency(results))]
        )
        index += f"| [Speed](speed.md) | {len(results.benchmarks)} | |\n"
    index += "\n".join([*section(tables.verdict(results)), ""])
    return {"README.md": index} | made


def data_page(results: Results, name: str) -> str:
    """All results on one data set."""
    files = [f for f in results.files.values() if any(data_set(r.data) == name for r in f.runs)]
    runs = sorted((run for file in files for run in file.runs), key=_papers_form_first)
    groups = by_recipe(runs)
    lines: list[str] = []
    for make in OF_RUNS.values():
        lines += section(make(groups, runs))
    for other in results.others.values():
        if other["kind"] == "sweep" and data_set(other["data"]) == name:
            lines += section(tables.sweep(other))
    if name == "cub200" and "cub200_boxes" in results.others:
        lines += section(boxes(results.others["cub200_boxes"]))
    return page(title(name), [*lines, *notes(files)])


def _papers_form_first(run: StoredRun) -> tuple[bool, bool, str]:
    return run.paper_error() is None, run.preset is None, run.model


def notes(files: list[RunsFile]) -> Iterator[str]:
    """How the runs of each file were trained and measured."""
    yield "\n## Notes\n"
    for file in files:
        remarks = [file.note, *dict.fromkeys((r.maps or {}).get("note") for r in file.runs)]
        link = f"[{file.title}](../../results/{file.name}.json)"
        yield f"- {link}: {' '.join(remark for remark in remarks if remark)}"


def page(heading: str, lines: list[str]) -> str:
    """A page with a heading and the remark that it is generated."""
    top = f"# Results: {heading}\n\n{GENERATED} [All results](README.md) explains the columns."
    return "\n".join([top, *lines]).rstrip() + "\n"


def section(table: Table) -> Iterator[str]:
    """A table with its heading and its note; nothing where it has no rows."""
    if table.rows:
        yield f"\n## {table.title}\n"
        yield from markdown(table)
        yield f"\n{table.note}" if table.note else ""


def markdown(table: Table) -> Iterator[str]:
    """The lines of a table."""
    yield "| " + " | ".join(table.head) + " |"
    yield "|" + "---|" * len(table.head)
    for row in table.rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
