"""The page of one run, or of several with a comparison."""

import re
from collections.abc import Mapping, Sequence

from aib.evaluation import Evaluation, describe_samples
from aib.figures.embed import png_uri
from aib.figures.table import NOTHING, Table, number
from aib.interpret.results import ClassMetrics, Information, Study
from aib.interpret.tables import all_tables, own_localisation, randomisation_text
from aib.paper import paper_error
from aib.report.blocks import (
    Block,
    Cards,
    Charts,
    Gallery,
    Picture,
    Section,
    TableBlock,
    Text,
    Verdict,
    render,
)
from aib.report.charts import (
    anchor_charts,
    calibration_charts,
    faithfulness_charts,
    randomisation_chart,
    training_charts,
)
from aib.report.gather import RunContent
from aib.report.reproduce import reproduce

CLASSES = {"own": "", "raw": ", class numbers as they are", "matched": ", matched by name"}
CAPTIONS = {
    "modified": "Images modified in four ways, with their maps beneath",
    "evaluator": "Accuracy of the evaluator with the pixels that each map keeps",
}


def run_page(runs: Sequence[RunContent]) -> str:
    """One self-contained HTML page."""
    if len(runs) == 1:
        return render(_title(runs[0]), _sections(runs[0]))
    sections, links = [_comparison(runs)], [("comparison", "Comparison")]
    for i, run in enumerate(runs):
        sections += _sections(run, f"{run.label} · ", f"run{i}-", with_tables=False)
        links.append((f"run{i}-summary", run.label))
    return render(f"{len(runs)} runs compared", sections, links)


def _title(run: RunContent) -> str:
    data = run.settings.data if run.settings else run.study.data if run.study else None
    return f"{run.model} on {data}" if data else run.model


def _comparison(runs: Sequence[RunContent]) -> Section:
    rows = [
        (run.label, run.model, number(e.top1_error if e else None, 2), _paper(run))
        for run, e in ((run, run.own_evaluation) for run in runs)
    ]
    head = ("run", "model", "error %", "paper %")
    blocks: list[Block] = [TableBlock(Table("Test error", head, tuple(rows)))]
    studies = {run.label: run.study for run in runs if run.study is not None}
    same = {(s.data, s.split, s.images, s.seed) for s in studies.values()}
    if len(same) > 1:
        blocks.append(Text("The runs were not measured on the same images: compare with care."))
    return Section("Comparison", "comparison", [*blocks, *_study_tables(studies)])


def _sections(
    run: RunContent, title: str = "", prefix: str = "", *, with_tables: bool = True
) -> list[Section]:
    """The sections of one run; `title` and `prefix` tell them from those of other runs."""
    study = run.study
    parts: dict[str, tuple[str, Sequence[Block | None]]] = {
        "summary": ("Summary", _summary(run)),
        "maps": ("Attention maps", _gallery(run.gallery)),
        "evaluation": ("Evaluation", _evaluation(run)),
        "trust": ("How far to trust the maps", _trust(run, with_tables)),
        "training": ("Training", [training_charts(run.metrics)]),
        "anchors": ("Anchors", [anchor_charts(run.metrics, study.information if study else None)]),
        "classes": ("Classes", _classes(study.classes if study else ())),
        "reproduce": ("How to reproduce", reproduce(run)),
    }
    return [
        Section(title + name, prefix + anchor, [block for block in blocks if block])
        for anchor, (name, blocks) in parts.items()
    ]


def _summary(run: RunContent) -> list[Block | None]:
    cards = _cards(run)
    return [
        Cards(cards) if cards else None,
        _verdict(run.study),
        _measured_on(run.study),
        *(Text(note, soft=True) for note in run.notes),
    ]


def _cards(run: RunContent) -> list[tuple[str, str]]:
    own, study, cards = run.own_evaluation, run.study, []
    if own:
        low, high = own.top1_interval
        cards.append((f"{own.top1_error:.2f}%", f"test error ({low:.2f} to {high:.2f})"))
    if _paper(run) != NOTHING:
        cards.append((f"{_paper(run)}%", "the paper's error"))
    if evaluation := own or run.calibrated:
        cards.append((f"{evaluation.calibration_error:.2f}%", "calibration error"))
    auroc = own_localisation(study).auroc if study else None
    if auroc is not None:
        cards.append((f"{auroc:.3f}", "AUROC of the map against the object"))
    info = study.information if study else Information()
    bits = own.kl_bits if own else info.kl_bits
    if bits is not None:
        cards.append((f"{bits:.1f}", "bits per image in the latent"))
    if own and own.area is not None and own.mask_bits is not None:
        text = f"of each image is open to the classifier ({own.mask_bits:,.0f} bits)"
        cards.append((f"{100 * own.area:.1f}%", text))
    if info.perplexity is not None and info.anchors is not None:
        cards.append((f"{info.perplexity:.1f}", f"of {len(info.anchors)} anchors in use"))
    return cards


def _verdict(study: Study | None) -> Verdict | None:
    if study is None:
        return None
    verdict, text = study.verdict, study.verdict_text
    if verdict is None:
        return Verdict("", f"Does the decision use the map? {text}.")
    return Verdict(verdict.name, text)


def _measured_on(study: Study | None) -> Text | None:
    if study is None:
        return None
    count, total = study.images, study.of_images or study.images
    part = "" if count == total else f" (of {total:,}, chosen at random)"
    images = f"{count:,} {study.split} images of {study.data}{part}"
    return Text(f"The maps were measured on {images}.", soft=True)


def _gallery(gallery: Gallery | None) -> list[Block]:
    if gallery is None:
        return []
    order = ", ".join(what for what, _ in gallery.items[0].tiles)
    text = f"A random sample of test images. From left to right: {order}. Yellow is high; each "
    text += "map is scaled to its own range, however faint it is."
    return [Text(text, soft=True), gallery]


def _evaluation(run: RunContent) -> list[Block]:
    blocks: list[Block] = []
    if run.evaluations:
        own = run.own_evaluation
        rows = [_row(e, _paper(run) if e is own else NOTHING) for e in run.evaluations.values()]
        head = (
            "data", "error %", "paper %", "top-5 error %", "NLL, nats", "calibration error %",
            "latent, bits", "images", "samples",
        )  # fmt: skip
        blocks.append(TableBlock(Table("Evaluation", head, tuple(rows))))
    if (e := run.calibrated) and e.calibration_bins:
        text = f"On {e.images:,} {e.split} images with {describe_samples(e.samples)}; "
        text += f"{len(e.calibration_bins.images)} equal bins of confidence."
        blocks += [calibration_charts(e.calibration_bins), Text(text, soft=True)]
    return blocks


def _row(e: Evaluation, paper: str) -> tuple[str, ...]:
    low, high = e.top1_interval
    return (
        f"{e.data} {e.split}{CLASSES[e.classes]}",
        f"{e.top1_error:.2f} ({low:.2f}-{high:.2f})",
        paper,
        number(e.top5_error, 2),
        f"{e.nll:.3f}",
        f"{e.calibration_error:.2f}",
        number(e.kl_bits, 1),
        f"{e.images:,}",
        e.samples,
    )


def _trust(run: RunContent, with_tables: bool) -> list[Block | None]:
    study = run.study
    if not study:
        return []
    charts = faithfulness_charts(study.faithfulness)
    charts += randomisation_chart(study.randomised_layers)
    return [
        _measured_on(study),
        *(_study_tables({run.label: study}) if with_tables else []),
        Charts(charts) if charts else None,
        Text(text) if (text := randomisation_text(study)) else None,
        *(Text(note, soft=True) for note in study.notes),
        *_pictures(run),
    ]


def _study_tables(studies: Mapping[str, Study]) -> list[TableBlock]:
    return [TableBlock(t, heading=True) for t in all_tables(studies)] if studies else []


def _pictures(run: RunContent) -> list[Picture]:
    pictures = []
    for path in run.pictures:
        caption = CAPTIONS.get(path.stem, path.stem.replace("_", " "))
        if pair := re.fullmatch("wrong_(.+)_right_(.+)", path.stem):
            caption = f"Images that {pair[1]} gets wrong and {pair[2]} right, with both maps"
        pictures.append(Picture(caption, png_uri(path.read_bytes())))
    return pictures


def _classes(rows: Sequence[ClassMetrics]) -> list[Block]:
    columns = {
        "correct": ("accuracy %", 100.0, 1),
        "kl_bits": ("latent, bits", 1.0, 1),
        "entropy_bits": ("map levels, bits", 1.0, 2),
        "energy_passed": ("energy passed %", 100.0, 1),
        "auroc": ("AUROC", 1.0, 3),
        "contrast": ("contrast", 1.0, 3),
    }
    shown = {k: v for k, v in columns.items() if any(row.means.get(k) is not None for row in rows)}
    if not shown:
        return []
    cells = [
        (
            row.name,
            f"{row.images:,}",
            *(
                number(row.means.get(key), digits, times)
                for key, (_, times, digits) in shown.items()
            ),
        )
        for row in rows
    ]
    head = ("class", "images", *(name for name, _, _ in shown.values()))
    return [TableBlock(Table("Metrics per class", head, tuple(cells)))]


def _paper(run: RunContent) -> str:
    s = run.settings
    return number(paper_error(s.model, s.data, s.recipe()) if s else None, 2)
