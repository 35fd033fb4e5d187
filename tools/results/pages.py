"""The pages of docs/results/: one per data set, one of speed, and an index."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from aib.config.paper import has_papers_form
from aib.data.specs import SPECS
from aib.figures.table import without_empty_columns
from aib.interpret.results import Study
from aib.interpret.tables import STABILITY, all_tables
from aib.sweep.show import sweep_tables
from tools.results.errors import OWN_TEST_IMAGES, error_tables, every_run, link, other_data
from tools.results.maps import maps_table, posthoc_notes, reliance, studied
from tools.results.markdown import contents, section
from tools.results.read import Results, RunsFile, StoredRun, data_set
from tools.results.speed import latency_table, loading_table, speed_table, study_table

INDEX = "README.md"
SPEED = "speed.md"
GENERATED = "Generated from `results/` by `python -m tools.results docs`; do not edit."
HEAD = f"""{GENERATED} The files in
[`results/`](../../results) name the command, the versions and the hardware of every run.

- Errors are top-1 errors in percent on the test images, after the last epoch. No epoch and no run
  was chosen by them. Where an earlier recipe's test error was known when the next one was made, a
  note says so.
- The paper's numbers are its Table 1 and Table 2 as printed. They stand only beside models built as
  in the paper, whatever the recipe.
- The metrics of maps are explained in [interpretability.md](../interpretability.md), and what we
  conclude from them is in [findings.md](../findings.md).
"""


def pages(results: Results) -> dict[str, str]:
    """Every page by its file name."""
    names = dict.fromkeys(data_set(run.data) for run in results.all_runs)
    names |= dict.fromkeys(data_set(found.base.data) for found in results.sweeps.values())
    known = [*SPECS]
    ordered = sorted(names, key=lambda name: (known.index(name) if name in known else 99, name))
    made = {f"{name}.md": data_page(results, name) for name in ordered}
    if results.benchmarks:
        made[SPEED] = _page("Speed", speed_sections(results))
    return {INDEX: index(results, ordered)} | made


def index(results: Results, names: Sequence[str]) -> str:
    """Which page has what."""
    lines = [f"# Results\n\n{HEAD}", "| page | runs | models |", "|---|---|---|"]
    for name in names:
        runs = [run for run in results.all_runs if data_set(run.data) == name]
        models = ", ".join(f"`{model}`" for model in dict.fromkeys(run.model for run in runs))
        lines.append(f"| [{title(name)}]({name}.md) | {len(runs)} | {models} |")
    if results.benchmarks:
        lines.append(f"| [Speed and latency]({SPEED}) | {len(results.benchmarks)} | |")
    return "\n".join(lines) + "\n"


def title(name: str) -> str:
    """A data set's title in brief."""
    if name == "shapes":
        return "Shapes"
    return SPECS[name].title.partition(",")[0] if name in SPECS else name


def data_page(results: Results, name: str) -> str:
    """All results on one data set."""
    files = [
        file for file in results.runs.values() if any(data_set(r.data) == name for r in file.runs)
    ]
    lines: list[str] = []
    for table in error_tables(files):
        lines += section(table)
    remarks = notes([file for file in files if not any(run.study for run in file.runs)])
    if remarks and lines and lines[-1]:
        lines.append("")  # or Markdown takes the list for a part of the paragraph
    lines += remarks
    lines += section(other_data(files))
    for file in sorted(files, key=_the_papers_first):
        lines += map_sections(file)
    for sweep, found in results.sweeps.items():
        if data_set(found.base.data) == name:
            lines.append(f"\n## Ablations: {found.preset}\n")
            lines.append(f"File: [results/{sweep}](../../results/{sweep}).")
            for table in sweep_tables(found):
                lines += section(table, "###")
    lines += section(every_run(files))
    return _page(title(name), lines)


def notes(files: Sequence[RunsFile]) -> list[str]:
    """The notes of files that have no section of their own."""
    return [f"- {link(file)}: {file.note}" for file in files if file.note]


def map_sections(file: RunsFile) -> Iterator[str]:
    """How far the maps of one comparison can be trusted: tables first, then the notes."""
    groups = studied(file.runs)
    if not groups:
        return
    shown = {
        run.name: run.study if has_papers_form(run.recipe) else replace(run.study, paper={})
        for run in first_of_each(groups)
        if run.study
    }
    some = next(iter(shown.values()))
    yield f"\n## Maps: {file.title}\n"
    yield f"{some.images:,} {some.split} images of {some.data}; {link(file)}."
    several = any(len(runs) > 1 for runs, _ in groups)
    tables = [maps_table(file.runs)] if several else []
    tables += [*all_tables(shown), reliance(shown)]
    for table in tables:
        if table.title != STABILITY or any(study.paper for study in shown.values()):
            yield from section(without_empty_columns(table), "###")
    if several:
        yield "\nThe tables after the first are of the first seed of each recipe and verdict."
    yield from [f"\n{file.note}"] if file.note else []
    if older := [run.name for run in file.runs if run.own_test_images]:
        yield (
            f"\n{OWN_TEST_IMAGES} Measured on test images that were sampled with the run's own "
            f"seed: {', '.join(older)}."
        )
    yield from (f"\n{note}" for note in posthoc_notes(file.runs))


def first_of_each(groups: Sequence[tuple[list[StoredRun], list[Study]]]) -> Iterator[StoredRun]:
    """The first run of each recipe and verdict: the seed may decide whether a map is used."""
    for runs, studies in groups:
        firsts: dict[str, StoredRun] = {}
        for run, study in zip(runs, studies, strict=True):
            firsts.setdefault(study.verdict.name if study.verdict else "", run)
        yield from firsts.values()


def _the_papers_first(file: RunsFile) -> tuple[bool, str]:
    papers = any(run.study and run.study.paper and has_papers_form(run.recipe) for run in file.runs)
    return not papers, file.name


def speed_sections(results: Results) -> list[str]:
    lines: list[str] = []
    for make in (speed_table, loading_table, latency_table):
        lines += section(make(results.benchmarks))
    lines += section(study_table(results.all_runs))
    links = ", ".join(f"[{name}](../../results/{name})" for name in results.benchmarks)
    return [*lines, f"\nFiles: {links}."]


def _page(heading: str, lines: list[str]) -> str:
    top = f"# Results: {heading}\n\n{GENERATED} What the columns mean: [all results]({INDEX}).\n"
    return "\n".join([top, *contents(lines), *lines]).rstrip() + "\n"
