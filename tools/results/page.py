"""docs/results.md, made from results/*.json alone: every figure beside the paper's."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from aib.errors import AibError
from aib.files import read_json
from aib.interpret.tables import STABILITY, all_tables, reliance
from aib.paper import has_papers_form
from aib.sweep.results import SweepResults
from aib.sweep.tables import sweep_tables
from tools.results.errors import Found, Groups, elsewhere, errors, every_run, other_images
from tools.results.markdown import contents, markdown, without_empty_columns
from tools.results.seeds import measured, over_seeds
from tools.results.speed import speed

HEAD = """# Results

Made by `python -m tools.results page` from the files in `results/`; do not edit. Each of those was
written by a command and names its versions and hardware. Errors are top-1 errors in percent on the
test images, of the last epoch; no epoch and no run was chosen by them, and where an earlier
recipe's error was known when the next was made, a note says so. The paper's figures are its
Table 1 and Table 2, as printed, and stand only beside models built as in the paper, whatever the
recipe. What was measured of maps is explained in [interpretability.md](interpretability.md).
"""


def page(folder: Path) -> str:
    """The whole page."""
    files = {path.name: _checked(path) for path in sorted(folder.glob("*.json"))}
    if not files:
        raise AibError(f"no results in {folder}")
    groups = {name: found for name, found in files.items() if found.get("kind") == "runs"}
    parts = [
        *errors(groups),
        *elsewhere(groups),
        *_maps(groups),
        *speed({name: found for name, found in files.items() if "what" in found}),
        *_ablations({name: found for name, found in files.items() if "panels" in found}),
        *every_run(groups),
    ]
    return "\n".join([HEAD, *contents(parts), *parts])


def _checked(path: Path) -> Found:
    """A file that its tables can be made of; the way to find out is to make them."""
    found = read_json(path) or {}
    kinds: list[Callable[[Mapping[str, Found]], Iterator[str]]] = []
    kinds += [errors, elsewhere, _maps, every_run] if found.get("kind") == "runs" else []
    kinds += [speed] if "what" in found else []
    kinds += [_ablations] if "panels" in found else []
    refusal = f"{path} is not a results file of aib collect, bench or sweep"
    if not kinds:
        raise AibError(refusal)
    try:
        for tables in kinds:
            "".join(tables({path.name: found}))
    except AibError as error:
        raise AibError(f"{refusal}: {error}") from error
    except KeyError as error:
        raise AibError(f"{refusal}: it has no {error}") from error
    except (IndexError, TypeError, ValueError, AttributeError) as error:
        raise AibError(f"{refusal}: a value in it is of the wrong kind ({error})") from error
    return found


def _maps(groups: Groups) -> Iterator[str]:
    """How far the maps can be trusted: a comparison a file, those that the paper has first."""
    for name, group in sorted(groups.items(), key=_the_papers_first):
        results = _beside_the_paper(group)
        if not results:
            continue
        some = next(iter(results.values()))
        yield f"\n## Maps: {group['title']}\n"
        yield (
            f"{some['images']:,} {some['split']} images of {some['data']}; "
            f"[results/{name}](../results/{name}).\n"
        )
        yield from [group["note"] + "\n"] if group["note"] else []
        if older := other_images(group["runs"]):
            yield (
                "Measured on test images drawn by the run's own seed, not on the one test set that "
                f"shapes have now: {', '.join(older)}.\n"
            )

        yield from _posthoc_notes(group)
        for table in [over_seeds(group), *all_tables(results), reliance(results)]:
            if table.title != STABILITY or any(r["paper"] for r in results.values()):
                yield from markdown(without_empty_columns(table), "###")


def _posthoc_notes(group: Found) -> Iterator[str]:
    """What the post-hoc maps of older studies attribute (`mark.py`), and of which runs."""
    runs = [run for run in group["runs"] if run["interpret"]]
    for note in dict.fromkeys(run["interpret"].get("posthoc_note") for run in runs):
        names = [run["name"] for run in runs if run["interpret"].get("posthoc_note") == note]
        which = "" if len(names) == len(runs) else f" ({', '.join(names)})"
        yield from [f"{note}{which}.\n"] if note else []


def _the_papers_first(named: tuple[str, Found]) -> tuple[bool, str, str]:
    name, group = named
    papers = any(result["paper"] for result in _beside_the_paper(group).values())
    return not papers, group["runs"][0]["data"], name


def _beside_the_paper(group: Found) -> dict[str, dict]:
    """What was measured of maps, with the paper's figures where they belong: a run a recipe."""
    firsts = [alike[0] for alike in measured(group)]
    return {
        run["name"]: run["interpret"] | ({} if has_papers_form(run["recipe"]) else {"paper": {}})
        for run in firsts
    }


def _ablations(files: Mapping[str, Found]) -> Iterator[str]:
    for name, found in files.items():
        yield f"\n## Ablations: {found['preset']}\n\n[results/{name}](../results/{name}).\n"
        for table in sweep_tables(SweepResults.from_dict(found, Path(name))):
            yield from markdown(table, "###")
