"""The page of one run, or of several with a comparison: what templates/page.html shows."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from aib.config.paper import paper_error
from aib.config.profiles import PROFILES
from aib.evaluation.error import (
    Evaluation,
    describe_evaluation,
    describe_samples,
    describe_split,
    metric_texts,
)
from aib.figures.embed import png_uri
from aib.figures.table import NOTHING, Table, number, table_of, without_empty_columns
from aib.interpret.measured import Information
from aib.interpret.tables import all_tables, own_localisation, randomisation_text
from aib.report.charts import training_charts
from aib.report.content import RunContent
from aib.version import __version__

CAPTIONS = {
    "modified": "Images modified in several ways, with their maps beneath",
    "modified_compared": "Images modified in several ways, with the maps of each run beneath",
}
VERSIONS = {"python": "Python", "torch": "torch", "aib": "aib", "device": "hardware"}


def code_spans(text: str) -> Markup:
    """Escaped text with `code` as <code>."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


_templates = Environment(
    loader=PackageLoader("aib.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_templates.filters["code_spans"] = code_spans


def run_page(runs: Sequence[RunContent]) -> str:
    """One self-contained HTML page."""
    several = len(runs) > 1
    return _templates.get_template("page.html").render(
        title=f"{len(runs)} runs compared" if several else _title(runs[0]),
        comparison=_comparison(runs) if several else None,
        # Headings and anchors tell the parts of several runs apart.
        runs=[
            _parts(run) | {"heading": f"{run.label} · " * several, "prefix": f"run{i}-" * several}
            for i, run in enumerate(runs)
        ],
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _title(run: RunContent) -> str:
    data = run.settings.data if run.settings else run.study.data if run.study else None
    return f"{run.model} on {data}" if data else run.model


def _comparison(runs: Sequence[RunContent]) -> dict[str, Any]:
    errors = [
        {"run": run.label, "model": run.model}
        | _row(f"{run.settings.data} {e.split}", e, _paper(run))
        for run in runs
        if run.settings and (e := run.own_evaluation)
    ]
    studies = {run.label: run.study for run in runs if run.study is not None}
    return {
        "errors": without_empty_columns(table_of("Error", errors)),
        "images_differ": len({(s.measured_on(), s.seed) for s in studies.values()}) > 1,
        "tables": all_tables(studies) if studies else [],
    }


def _parts(run: RunContent) -> dict[str, Any]:
    """What the template shows of one run."""
    own, study, s, made = run.own_evaluation, run.study, run.settings, run.environment
    rows = [
        _row(describe_evaluation(name, e), e, _paper(run) if e is own else NOTHING)
        for name, e in run.evaluations.items()
    ]
    parts: dict[str, Any] = {
        "label": run.label,
        "study": study,
        "cards": _cards(run),
        "notes": run.notes,
        "pictures": [
            (CAPTIONS.get(path.stem, path.stem.replace("_", " ")), png_uri(path.read_bytes()))
            for path in run.pictures
        ],
        "evaluations": without_empty_columns(table_of("Evaluation", rows)),
        "training": training_charts(
            run.metrics, exact_kl=s is None or PROFILES[s.options.profile].exact_kl
        ),
        "commands": [made.get("command")],
        "facts": [f"{name} {made[key]}" for key, name in VERSIONS.items() if made.get(key)],
    }
    if s:
        settings = tuple((name, str(value)) for name, value in s.to_dict().items())
        parts["settings"] = Table("Settings", ("setting", "value"), settings)
        parts["facts"].append(f"seed {s.seed}")
    if own:
        on = f"{own.images:,} {describe_split(own.split)} images of {own.data}"
        parts["evaluated_on"] = f"On {on} with {describe_samples(own.samples)}."
    if study:
        count, total = study.images, study.of_images or study.images
        part = "" if count == total else f" (of {total:,}, chosen at random)"
        parts["measured_on"] = f"The maps were measured on {study.measured_on(part)}."
        parts["tables"] = all_tables({run.label: study})
        parts["randomisation"] = randomisation_text(study)
        parts["commands"].append(study.environment.get("command"))
    return parts


def _cards(run: RunContent) -> list[tuple[str, str]]:
    """The most important numbers, and what they are."""
    own, study, cards = run.own_evaluation, run.study, []
    if own:
        low, high = own.top1_interval
        what = f"{describe_split(own.split)} error ({low:.2f} to {high:.2f})"
        cards.append((f"{own.top1_error:.2f}%", what))
        cards.append((f"{own.calibration_error:.2f}%", "calibration error"))
    if _paper(run) != NOTHING:
        cards.append((f"{_paper(run)}%", "the paper's error"))
    if study and (auroc := own_localisation(study).get("auroc")) is not None:
        count = study.subset_images if "own" in study.localisation else study.images
        cards.append((f"{auroc:.3f}", f"AUROC of the map against the object ({count:,} images)"))
    info = study.information if study else Information()
    bits = own.kl_bits if own else info.kl_bits
    if bits is not None:
        samples = describe_samples(own.samples if own else "deterministic")
        cards.append((f"{bits:.1f}", f"bits per image in the latent ({samples})"))
    if own and own.area is not None and own.mask_bits is not None:
        text = f"of each image is open to the classifier ({own.mask_bits:,.0f} bits)"
        cards.append((f"{100 * own.area:.1f}%", text))
    if info.perplexity is not None and info.anchors is not None:
        cards.append((f"{info.perplexity:.1f}", f"of {len(info.anchors)} anchors in use"))
    return cards


def _row(data: str, e: Evaluation, paper: str) -> dict[str, str]:
    how = {"images": f"{e.images:,}", "samples": e.samples}
    return {"data": data, **metric_texts(e), "paper's error, %": paper, **how}


def _paper(run: RunContent) -> str:
    s = run.settings  # the paper trained on all training images
    return number(paper_error(s.model, s.data, s.recipe()) if s and not s.holdout else None, 2)
