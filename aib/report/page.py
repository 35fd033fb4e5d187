"""The page: one HTML file that opens from disk, with nothing fetched from anywhere."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape, unescape
from typing import Any

from aib.evaluate import describe_samples
from aib.figures.table import NOTHING, Table, number
from aib.interpret.results import Study
from aib.interpret.tables import all_tables, own_localisation, randomisation_text
from aib.paper import paper_error
from aib.report import curves
from aib.report.gather import Maps, Material
from aib.report.html import (
    card,
    file_uri,
    image,
    paragraph,
    picture_uri,
    section,
    table_html,
)
from aib.report.reproduce import reproduce
from aib.report.style import CSS
from aib.version import __version__

READING = {"own": "", "raw": ", class numbers as they are", "matched": ", matched by name"}
PICTURES = {"modified": "Images modified in four ways, with their maps beneath"}


def page(materials: Sequence[Material]) -> str:
    """The report of one run, or of several with their comparison first."""
    several = len(materials) > 1
    title = f"{len(materials)} runs compared" if several else _title(materials[0])
    body: list[str] = []
    if several:
        body.append(_comparison(materials))
    for i, material in enumerate(materials):
        body += _run(material, f"run{i}-" if several else "", several)
    return document(title, "".join(body), _links(materials, body))


def document(title: str, body: str, links: str = "") -> str:
    """The page around the sections."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{CSS}</style></head>'
        f"<body><main><header><h1>{escape(title)}</h1>"
        f'<p class="soft">aib {__version__}, written {made}</p><nav>{links}</nav></header>'
        f"{body}</main></body></html>\n"
    )


def _title(m: Material) -> str:
    data = m.settings.data if m.settings else (m.result or {}).get("data", "")
    return f"{m.model} on {data}" if data else m.model


def _comparison(materials: Sequence[Material]) -> str:
    results = {m.label: m.result for m in materials if m.result is not None}
    measured = {tuple(r[k] for k in ("data", "split", "images", "seed")) for r in results.values()}
    warning = "The runs were not measured on the same images: compare with care."
    rows = [_error_row(m) for m in materials]
    table = Table("Test error", ("run", "model", "error %", "paper %"), tuple(rows))
    parts = [table_html(table), paragraph(warning) if len(measured) > 1 else "", *_tables(results)]
    return section("Side by side", "comparison", parts)


def _error_row(m: Material) -> tuple[str, str, str, str]:
    own = _own_evaluation(m)
    error = f"{own['top1_error']:.2f}" if own else NOTHING
    return m.label, m.model, error, _paper(m)


def _run(m: Material, prefix: str, several: bool) -> list[str]:
    """The sections of one run."""
    name = f"{m.label} · " if several else ""
    result = m.result or {}
    where = _measured_on(result)
    head = [*_cards(m), _verdict(result), where, *(paragraph(note, "soft") for note in m.notes)]
    tables = [] if several or not result else _tables({m.label: result})
    text = randomisation_text(Study.from_dict(result)) if result else None
    words = [paragraph(text)] if text else []
    notes = [paragraph(note, "soft") for note in result.get("notes", [])]
    trust = [
        where,
        *tables,
        curves.faithfulness(result["faithfulness"]) if result.get("faithfulness") else "",
        curves.randomisation(result.get("randomised_layers", [])),
        *words,
        *notes,
        *_pictures(m),
    ]
    return [
        section(f"{name}At a glance", f"{prefix}summary", head),
        section(f"{name}Where it looks", f"{prefix}maps", _gallery(m.gallery)),
        section(f"{name}Evaluation", f"{prefix}evaluation", _evaluation(m)),
        section(f"{name}How far to trust the maps", f"{prefix}trust", trust),
        section(f"{name}Training", f"{prefix}training", [curves.training(m.metrics)]),
        section(
            f"{name}Anchors",
            f"{prefix}anchors",
            [curves.anchors(m.metrics, result.get("information"))],
        ),
        section(f"{name}Classes", f"{prefix}classes", _classes(result)),
        section(f"{name}How to reproduce", f"{prefix}reproduce", reproduce(m)),
    ]


def _measured_on(result: dict[str, Any]) -> str:
    if not result:
        return ""
    count, total = result["images"], result["of_images"]
    part = "" if count == total else f" (of {total:,}, chosen at random)"
    on = f"{count:,} {result['split']} images of {result['data']}{part}"
    return paragraph(f"The maps were measured on {on}.", "soft")


def _cards(m: Material) -> list[str]:
    own, result, shown = _own_evaluation(m), m.result or {}, []
    if own:
        low, high = own["top1_interval"]
        shown.append(card(f"{own['top1_error']:.2f}%", f"test error ({low:.2f} to {high:.2f})"))
    if _paper(m) != NOTHING:
        shown.append(card(f"{_paper(m)}%", "the paper's error"))
    if (calibration := _calibration_error(m)) is not None:
        shown.append(card(f"{calibration:.2f}%", "calibration error"))
    auroc = own_localisation(Study.from_dict(result)).auroc if result else None
    if auroc is not None:
        shown.append(card(f"{auroc:.3f}", "AUROC of the map against the object"))
    info = result.get("information", {})
    bits = own["kl_bits"] if own else info.get("kl_bits")
    if bits is not None:
        shown.append(card(f"{bits:.1f}", "bits an image in the latent"))
    if info.get("perplexity") is not None:
        shown.append(card(f"{info['perplexity']:.1f}", f"of {len(info['anchors'])} anchors in use"))
    return [f'<div class="cards">{"".join(shown)}</div>'] if shown else []


def _verdict(result: dict[str, Any]) -> str:
    reliance = result.get("reliance")
    if not reliance:
        return ""
    kind = reliance["verdict"] or ""
    words = reliance["words"] if kind else f"Does the decision use the map? {reliance['words']}."
    return f'<div class="verdict {escape(kind)}">{escape(words)}</div>'


def _gallery(gallery: Sequence[Maps]) -> list[str]:
    items = []
    for maps in gallery:
        right = maps.truth == maps.prediction
        tiles = "".join(
            image(picture_uri(tile), f"{what} of a {maps.truth}") for what, tile in maps.tiles
        )
        said = f"{maps.prediction} {100 * maps.probability:.0f}%"
        mark = '<span class="right">✓</span>' if right else f"not {escape(maps.truth)}"
        mark = mark if right else f'<span class="wrong">✗ {mark}</span>'
        items.append(
            f'<figure class="maps"><div class="row">{tiles}</div>'
            f"<figcaption>{escape(said)} {mark}</figcaption></figure>"
        )
    if not items:
        return []
    order = ", ".join(what for what, _ in gallery[0].tiles)
    words = f"A random sample of test images. From left to right: {order}. Yellow is high."
    return [paragraph(words, "soft"), f'<div class="gallery">{"".join(items)}</div>']


def _evaluation(m: Material) -> list[str]:
    rows = []
    for key, e in m.evaluations.items():
        low, high = e["top1_interval"]
        top5 = number(e["top5_error"], 2)
        own = m.settings is not None and key == m.settings.reported
        rows.append(
            (
                f"{e['data']} {e['split']}{READING.get(e['classes'], '')}",
                f"{e['top1_error']:.2f} ({low:.2f}-{high:.2f})",
                _paper(m) if own else NOTHING,
                top5,
                f"{e['nll']:.3f}",
                f"{e['calibration_error']:.2f}",
                number(e["kl_bits"], 1),
                f"{e['images']:,}",
                e["samples"],
            )
        )
    head = (
        "data",
        "error %",
        "paper %",
        "top-5 error %",
        "nats an image",
        "calibration error %",
        "latent, bits",
        "images",
        "samples",
    )
    parts = [table_html(Table("Evaluation", head, tuple(rows)))] if rows else []
    if m.reliability:
        r = m.reliability
        parts.append(curves.calibration(r))
        drawn = describe_samples(r.samples)
        words = f"Drawn from {r.images:,} test images, {drawn}; 15 equal bins of confidence."
        parts.append(paragraph(words, "soft"))
    return parts


def _tables(results: dict[str, dict[str, Any]]) -> list[str]:
    parts = []
    studies = {label: Study.from_dict(result) for label, result in results.items()}
    for table in all_tables(studies) if studies else []:
        parts += [f"<h3>{escape(table.title)}</h3>", table_html(table)]
    return parts


def _pictures(m: Material) -> list[str]:
    parts = []
    for path in m.pictures:
        words = PICTURES.get(path.stem, path.stem.replace("_", " "))
        if pair := re.fullmatch("wrong_(.+)_right_(.+)", path.stem):
            words = f"Images that {pair[1]} gets wrong and {pair[2]} right, with both maps"
        parts.append(f"<h3>{escape(words)}</h3>")
        parts.append(f'<div class="picture">{image(file_uri(path), words)}</div>')
    return parts


def _classes(result: dict[str, Any]) -> list[str]:
    columns = {
        "correct": ("accuracy %", 100.0, 1),
        "kl_bits": ("latent, bits", 1.0, 1),
        "entropy_bits": ("map levels, bits", 1.0, 2),
        "energy_passed": ("energy passed %", 100.0, 1),
        "auroc": ("AUROC", 1.0, 3),
        "contrast": ("contrast", 1.0, 3),
    }
    rows = result.get("classes", [])
    shown = {
        key: how for key, how in columns.items() if any(row.get(key) is not None for row in rows)
    }
    if not shown:
        return []
    cells = [
        (
            row["class"],
            f"{row['images']:,}",
            *(number(row.get(key), digits, times) for key, (_, times, digits) in shown.items()),
        )
        for row in rows
    ]
    head = ("class", "images", *(name for name, _, _ in shown.values()))
    return [table_html(Table("By class", head, tuple(cells)))]


def _own_evaluation(m: Material) -> dict[str, Any] | None:
    """The figures that the training ended with."""
    return m.evaluations.get(m.settings.reported) if m.settings else None


def _calibration_error(m: Material) -> float | None:
    """Of the evaluation, on all test images; without one, of the images measured for the page."""
    own = _own_evaluation(m)
    if own:
        return float(own["calibration_error"])
    return m.reliability.error if m.reliability else None


def _paper(m: Material) -> str:
    s = m.settings
    error = paper_error(s.model, s.data, s.recipe()) if s else None
    return number(error, 2)


def _links(materials: Sequence[Material], body: Sequence[str]) -> str:
    """To every section of one run, or to the beginning of each of several."""
    if len(materials) > 1:
        found = [("comparison", "Side by side")]
        found += [(f"run{i}-summary", m.label) for i, m in enumerate(materials)]
    else:
        found = headings("".join(body))
    return links_to(found)


def headings(body: str) -> list[tuple[str, str]]:
    """(anchor, title) of each section."""
    found = re.findall(r'<section id="([^"]+)"><h2>([^<]+)</h2>', body)
    return [(anchor, unescape(title)) for anchor, title in found]


def links_to(found: Sequence[tuple[str, str]]) -> str:
    """For the top of the page."""
    return "".join(f'<a href="#{anchor}">{escape(title)}</a>' for anchor, title in found)
