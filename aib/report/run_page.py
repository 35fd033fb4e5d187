"""The page of one run, or of several with a comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from aib.config.paper import paper_error
from aib.config.profiles import PROFILES
from aib.evaluation.error import Evaluation, describe_evaluation, describe_samples, describe_split
from aib.figures.embed import png_uri
from aib.figures.table import NOTHING, number, table_of
from aib.interpret.measured import Information
from aib.interpret.results import Study
from aib.interpret.tables import all_tables, own_localisation, randomisation_text
from aib.report.blocks import Section, blocks, render
from aib.report.charts import (
    anchor_charts,
    calibration_charts,
    faithfulness_charts,
    randomisation_chart,
    training_charts,
)
from aib.report.gather import RunContent
from aib.report.reproduce import reproduce

CAPTIONS = {
    "modified": "Images modified in several ways, with their maps beneath",
    "modified_compared": "Images modified in several ways, with the maps of each run beneath",
    "evaluator": "Accuracy of the evaluator with the pixels that each map keeps",
}


def run_page(runs: Sequence[RunContent]) -> str:
    """One self-contained HTML page."""
    if len(runs) == 1:
        return render(_title(runs[0]), _sections(runs[0]))
    sections, links = [_comparison(runs)], [("comparison", "Comparison")]
    for i, run in enumerate(runs):
        sections += _sections(run, f"{run.label} · ", f"run{i}-")
        links.append((f"run{i}-summary", run.label))
    return render(f"{len(runs)} runs compared", sections, links)


def _title(run: RunContent) -> str:
    data = run.settings.data if run.settings else run.study.data if run.study else None
    return f"{run.model} on {data}" if data else run.model


def _comparison(runs: Sequence[RunContent]) -> Section:
    errors = [
        {"run": run.label, "model": run.model}
        | _row(f"{run.settings.data} {e.split}", e, _paper(run))
        for run in runs
        if run.settings and (e := run.own_evaluation)
    ]
    studies = {run.label: run.study for run in runs if run.study is not None}
    shown = [blocks.table(table_of("Error", errors))] if errors else []
    for what, same in (
        ("errors", {_evaluated_images(run) for run in runs}),
        ("maps", {_studied_images(run) for run in runs}),
    ):
        if len(same - {None}) > 1:
            note = f"The {what} were not measured on the same images: compare with care."
            shown.append(blocks.text(note))
    return Section("Comparison", "comparison", [*shown, *_study_tables(studies)])


def _evaluated_images(run: RunContent) -> tuple[Any, ...] | None:
    """What tells the images of the run's evaluation; held-out ones depend on the run's seed."""
    e, s = run.own_evaluation, run.settings
    return (s.data, e.split, e.images, e.split == "val" and s.seed) if e and s else None


def _studied_images(run: RunContent) -> tuple[Any, ...] | None:
    """The same of the run's study, which may be of some images that it drew."""
    study, s = run.study, run.settings
    drawn = study and study.split != "test" and s and s.seed
    return (study.data, study.split, study.images, study.seed, drawn) if study else None


def _sections(run: RunContent, title: str = "", prefix: str = "") -> list[Section]:
    """The sections of one run; `title` and `prefix` tell them from those of other runs."""
    study, s = run.study, run.settings
    exact_kl = s is None or PROFILES[s.options.profile].exact_kl
    anchors = anchor_charts(run.metrics, study.information if study else Information())
    parts = {
        "summary": ("Summary", _summary(run)),
        "maps": ("Attention maps", _pictures(run)),
        "evaluation": ("Evaluation", _evaluation(run)),
        "trust": ("How far to trust the maps", _trust(run.label, study) if study else []),
        "training": ("Training", [blocks.charts(training_charts(run.metrics, exact_kl))]),
        "anchors": ("Anchors", [blocks.charts(anchors)]),
        "reproduce": ("How to reproduce", reproduce(run)),
    }
    return [Section(title + name, prefix + part, shown) for part, (name, shown) in parts.items()]


def _summary(run: RunContent) -> list[Markup]:
    study, shown = run.study, [blocks.cards(_cards(run))]
    if study:
        name = study.verdict.name if study.verdict else ""
        question = "" if name else "Does the decision use the map? "
        shown += [blocks.verdict(name, question + study.verdict_text), _measured_on(study)]
    return [*shown, *(blocks.text(note, soft=True) for note in run.notes)]


def _cards(run: RunContent) -> list[tuple[str, str]]:
    own, study, cards = run.own_evaluation, run.study, []
    if own:
        low, high = own.top1_interval
        what = f"{describe_split(own.split)} error ({low:.2f} to {high:.2f})"
        cards.append((f"{own.top1_error:.2f}%", what))
        cards.append((f"{own.calibration_error:.2f}%", "calibration error"))
    if _paper(run) != NOTHING:
        cards.append((f"{_paper(run)}%", "the paper's error"))
    if study and (auroc := own_localisation(study).auroc) is not None:
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


def _measured_on(study: Study) -> Markup:
    count, total = study.images, study.of_images or study.images
    part = "" if count == total else f" (of {total:,}, chosen at random)"
    return blocks.text(f"The maps were measured on {study.measured_on(part)}.", soft=True)


def _evaluation(run: RunContent) -> list[Markup]:
    if not run.evaluations:
        return []
    own = run.own_evaluation
    rows = [
        _row(name, e, _paper(run) if e is own else NOTHING) for name, e in run.evaluations.items()
    ]
    shown = [blocks.table(table_of("Evaluation", rows))]
    if own and own.calibration_bins:
        bins, how = own.calibration_bins, describe_samples(own.samples)
        text = f"On {own.images:,} {describe_split(own.split)} images of {own.data} with {how}."
        shown += [blocks.charts(calibration_charts(bins)), blocks.text(text, soft=True)]
    return shown


def _row(name: str, e: Evaluation, paper: str) -> dict[str, str]:
    low, high = e.top1_interval
    return {
        "data": describe_evaluation(name, e),
        "error %": f"{e.top1_error:.2f} ({low:.2f}-{high:.2f})",
        "paper %": paper,
        "top-5 error %": number(e.top5_error, 2),
        "NLL, nats": f"{e.nll:.3f}",
        "calibration error %": f"{e.calibration_error:.2f}",
        "latent, bits": number(e.kl_bits, 1),
        "images": f"{e.images:,}",
        "samples": e.samples,
    }


def _trust(label: str, study: Study) -> list[Markup]:
    curves = faithfulness_charts(study.faithfulness)
    notes = filter(None, [randomisation_text(study), *study.notes])
    return [
        _measured_on(study),
        *_study_tables({label: study}),
        blocks.charts(curves + randomisation_chart(study.randomised_layers)),
        *(blocks.text(note, soft=True) for note in notes),
    ]


def _study_tables(studies: Mapping[str, Study]) -> list[Markup]:
    return [blocks.table(t, heading=True) for t in all_tables(studies)] if studies else []


def _pictures(run: RunContent) -> list[Markup]:
    pictures = []
    for path in run.pictures:
        caption = CAPTIONS.get(path.stem, path.stem.replace("_", " "))
        pictures.append(blocks.picture(caption, png_uri(path.read_bytes())))
    return pictures


def _paper(run: RunContent) -> str:
    s = run.settings  # the paper trained on all training images
    return number(paper_error(s.model, s.data, s.recipe()) if s and not s.holdout else None, 2)
