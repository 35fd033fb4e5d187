"""docs/results.md, made from results/*.json alone: every figure beside the paper's."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aib.configs.paper import OTHER_FORM, has_papers_form, paper_error
from aib.configs.preset import spread
from aib.data.specs import SPECS
from aib.errors import AibError
from aib.interpret.tables import STABILITY, Table, all_tables
from aib.registry import MODELS
from aib.results.command import train_command, without_folders
from aib.run import read_json
from aib.sweep.results import tables as sweep_tables

Found = Mapping[str, Any]
READINGS = {"raw": "numbers as they are", "matched": "matched by name"}

HEAD = """# Results

Made by `aib results page` from the files in `results/`; do not edit. Each of those was written by
a command and names its versions and hardware. Errors are top-1 errors in percent on the test
images, of the last epoch; nothing was chosen by them. The paper's figures are its Table 1 and
Table 2, as printed, and stand only beside models of its own form.
"""


def page(folder: Path) -> str:
    """The whole page."""
    files = {path.name: _checked(path) for path in sorted(folder.glob("*.json"))}
    if not files:
        raise AibError(f"no results in {folder}")
    groups = {name: found for name, found in files.items() if found.get("kind") == "runs"}
    parts = [
        HEAD,
        *_errors(groups),
        *_elsewhere(groups),
        *_maps(groups),
        *_speed({name: found for name, found in files.items() if "what" in found}),
        *_ablations({name: found for name, found in files.items() if "panels" in found}),
        *_runs(groups),
    ]
    return "\n".join(parts)


def _checked(path: Path) -> Found:
    """A file that its tables can be made of; the way to find out is to make them."""
    found = read_json(path) or {}
    kinds: list[Callable[[Mapping[str, Found]], Iterator[str]]] = []
    kinds += [_errors, _elsewhere, _maps, _runs] if found.get("kind") == "runs" else []
    kinds += [_speed] if "what" in found else []
    kinds += [_ablations] if "panels" in found else []
    refusal = f"{path} is not a results file of aib collect, bench or sweep"
    if not kinds:
        raise AibError(refusal)
    try:
        for tables in kinds:
            "".join(tables({path.name: found}))
    except KeyError as error:
        raise AibError(f"{refusal}: it has no {error}") from error
    except (IndexError, TypeError, ValueError, AttributeError) as error:
        raise AibError(f"{refusal}: a value in it is of the wrong kind ({error})") from error
    return found


def _errors(groups: Mapping[str, Found]) -> Iterator[str]:
    """One row a recipe, its seeds averaged."""
    rows = []
    for name, group in groups.items():
        for alike in _by_recipe(group["runs"]):
            first, errors = alike[0], [_own(run)["top1_error"] for run in alike]
            rows.append(
                (
                    first["data"],
                    f"`{first['model']}`",
                    _options(first, group["runs"]),
                    str(len(alike)),
                    spread(errors),
                    _paper(first, first["data"]),
                    f"{first['epochs']}",
                    spread([run["minutes"] for run in alike], 1),
                    first["environment"]["device"],
                    f"[{group['title']}](../results/{name})",
                )
            )
    head = "data", "model", "options", "n", "error %", "paper %", "epochs", "minutes"
    note = (
        "n runs with different seeds; ± is their standard deviation. For shapes it includes that "
        "of the test images, as the seed draws those too. Minutes include compiling."
    )
    table = Table("Error", (*head, "hardware", "from"), tuple(sorted(rows)), note)
    yield from _markdown(table) if rows else []


def _elsewhere(groups: Mapping[str, Found]) -> Iterator[str]:
    """The same models on other data: one row a recipe and a way to read the classes."""
    rows = []
    for group in groups.values():
        for alike in _by_recipe(group["runs"]):
            first = alike[0]
            for key in dict.fromkeys(key for run in alike for key in run["evaluations"]):
                found = [run["evaluations"][key] for run in alike if key in run["evaluations"]]
                e = found[0]
                if key.startswith(first["data"] + " "):
                    continue
                papers = first["data"] == "cifar10" and e["classes"] == "raw"  # the paper's way
                rows.append(
                    (
                        f"{without_folders(e['data'])} {e['split']}",
                        READINGS.get(e["classes"], e["classes"]),
                        f"`{first['model']}`, {first['data']}",
                        _options(first, group["runs"]),
                        str(len(found)),
                        _images(e),
                        spread([each["top1_error"] for each in found]),
                        _paper(first, f"{e['data']} {e['split']}") if papers else "-",
                    )
                )
    head = "data", "classes", "model, trained on", "options", "n", "images", "error %", "paper %"
    stl10 = any(row[0].startswith("stl10") for row in rows)
    note = (
        "STL-10 shares nine classes with CIFAR-10, six of them under the same number. The paper's "
        "figures are near those of numbers compared as they are, and stand beside that reading."
    )
    table = Table("Other data", head, tuple(rows), note if stl10 else "")
    yield from _markdown(table) if rows else []


def _images(e: Found) -> str:
    """How many, and of how many where a part of the official set was at hand."""
    spec = SPECS.get(e["data"])
    official = spec.sizes.get(e["split"]) if spec and e["classes"] == "raw" else None
    return f"{e['images']:,}" + (
        f" of {official:,}" if official and official != e["images"] else ""
    )


def _maps(groups: Mapping[str, Found]) -> Iterator[str]:
    """How far the maps can be trusted: a comparison a file, stability where the paper has it."""
    for name, group in groups.items():
        results = {
            run["name"]: run["interpret"]
            | ({} if has_papers_form(run["recipe"]) else {"paper": {}})
            for run in group["runs"]
            if run["interpret"]
        }
        if not results:
            continue
        some = next(iter(results.values()))
        yield f"\n## Maps: {group['title']}\n"
        yield (
            f"{some['images']:,} {some['split']} images of {some['data']}; "
            f"[results/{name}](../results/{name}).\n"
        )
        yield from [group["note"] + "\n"] if group["note"] else []
        for table in all_tables(results):
            if table.title != STABILITY or any(r["paper"] for r in results.values()):
                yield from _markdown(table, "###")
        yield from (f"- {label}: {r['reliance']['words']}" for label, r in results.items())


def _speed(files: Mapping[str, Found]) -> Iterator[str]:
    rows = [
        (
            f"[{found['what']}](../results/{name})",
            _benched(found),
            f"batch {found['batch_size']}, {found['precision']}"
            + (", compiled" if found["compile"] else "")
            + (", replayed" if found.get("graphs") else ""),
            f"{found['images_per_second']:,.0f}",
            f"{found['plain_images_per_second']:,.0f}",
            f"{found['ratio']:.2f}",
            f"{100 * found['share_of_matmul']:.0f}",
            _number(found["peak_memory_gib"], 1),
            _number(found.get("first_epoch_seconds"), 0),
            found["environment"]["device"],
        )
        for name, found in files.items()
    ]
    head = (
        "what", "model", "how", "images/s", "plain, images/s", "ratio", "% of the matrix rate",
        "memory, GiB", "first epoch, s", "hardware",
    )  # fmt: skip
    note = (
        "Plain is fp32, eager, fed by a DataLoader, in the same run; the matrix rate is one large "
    )
    note += "product's. The first epoch includes compiling."
    yield from _markdown(Table("Speed", head, tuple(rows), note)) if rows else []
    yield from _latency(files)


def _latency(files: Mapping[str, Found]) -> Iterator[str]:
    """How long one caller waits on a CPU, where that was measured."""
    rows = [
        (
            f"[{_benched(found)}](../results/{name})",
            f"{row['batch']}",
            row["way"],
            f"{row['median_ms']:.1f}",
            f"{row['p90_ms']:.1f}",
            f"{row['ratio']:.2f}",
            f"{found['environment']['device']}, {found['latency']['threads']} threads",
        )
        for name, found in files.items()
        if "latency" in found
        for row in found["latency"]["rows"]
    ]
    head = "model", "batch", "way", "median, ms", "90%, ms", "eager / this", "hardware"
    note = "One deterministic pass from pixels to outputs; the ways took turns in one run."
    yield from _markdown(Table("Latency", head, tuple(rows), note)) if rows else []


def _benched(found: Found) -> str:
    model = f"`{found['model']}`"
    return model if found["width"] == 1 else f"{model} at width {found['width']:g}"


def _ablations(files: Mapping[str, Found]) -> Iterator[str]:
    for name, found in files.items():
        yield f"\n## Ablations: {found['preset']}\n\n[results/{name}](../results/{name}).\n"
        for table in sweep_tables(found):
            yield from _markdown(table, "###")


def _runs(groups: Mapping[str, Found]) -> Iterator[str]:
    """What it takes to repeat each one."""
    rows = [
        (
            run["name"],
            _error(_own(run)),
            _error(run["held_out"]) if run["held_out"] else "-",
            f"{_own(run)['nll']:.3f}",
            f"{_own(run)['calibration_error']:.2f}",
            _number(_own(run)["kl_bits"], 1),
            _own(run)["samples"],
            f"{run['minutes']:.1f}",
            "Python {python}, torch {torch}, {device}".format(**run["environment"]),
            f"`{_command(run)}`",
        )
        for group in groups.values()
        for run in group["runs"]
    ]
    head = (
        "run", "error % (95% interval)", "held out, error %", "nll", "calibration %", "bits",
        "samples", "minutes", "versions", "command",
    )  # fmt: skip
    yield from _markdown(Table("Every run", head, tuple(rows))) if rows else []


def _command(run: Found) -> str:
    """`aib train` for a model it knows; for another, what its training was started with."""
    known = run["model"] in MODELS
    return train_command(run["recipe"]) if known else run["environment"]["command"] or "-"


def _by_recipe(runs: Iterable[Found]) -> list[list[Found]]:
    """Runs that differ in their seed alone, together."""
    alike: dict[str, list[Found]] = {}
    for run in runs:
        recipe = {k: v for k, v in run["recipe"].items() if k != "seed"}
        alike.setdefault(repr(sorted(recipe.items())), []).append(run)
    return list(alike.values())


def _options(run: Found, group: Iterable[Found]) -> str:
    """What makes the model another, and whatever else differs within the file."""
    recipes = [other["recipe"] for other in group]
    differs = {k for r in recipes for k in r if any(o.get(k) != r[k] for o in recipes)}
    hidden = {"seed", "data", "model", "epochs", "channels_last", "compile"}
    shown = (OTHER_FORM | {"profile", "cutout", "holdout"} | differs) - hidden
    found = [f"{name} {value}" for name, value in run["recipe"].items() if name in shown]
    return ", ".join(found).replace("_", " ")


def _own(run: Found) -> Found:
    return run["evaluations"][run["reported"]]


def _paper(run: Found, data: str) -> str:
    return _number(paper_error(run["model"], data, run["recipe"]), 2)


def _error(e: Found) -> str:
    low, high = e["top1_interval"]
    return f"{e['top1_error']:.2f} ({low:.2f} to {high:.2f})"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _markdown(table: Table, level: str = "##") -> Iterator[str]:
    yield f"\n{level} {table.title}\n"
    yield "| " + " | ".join(table.head) + " |"
    yield "|" + "---|" * len(table.head)
    for row in table.rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield f"\n{table.note}" if table.note else ""
