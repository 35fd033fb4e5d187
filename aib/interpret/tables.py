"""The results of studies as tables, for the terminal, the report and the docs.

Several runs stand side by side; they saw the same modified images.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aib.figures.table import NOTHING, Table, number, with_columns
from aib.files import write_whole
from aib.interpret.metrics.bootstrap import Estimate
from aib.interpret.metrics.encoding import SWAPS
from aib.interpret.metrics.reliance import Drop, Reliance, points
from aib.interpret.metrics.score import PRIMARY_TAU, TAUS
from aib.interpret.per_image import ImageMetrics
from aib.interpret.results import OwnLocalisation, Study

Studies = Mapping[str, Study]  # by label of the run

STABILITY = "Do maps stay put?"
ENCODING = "Does the map give the class away?"
GAP = "completeness gap %"
NAMES = {
    "own": "own map",
    "gradcam": "Grad-CAM",
    "integrated_gradients": "Integrated Gradients",
    "centre": "centre Gaussian (control)",
    "random": "random (control)",
}


def all_tables(studies: Studies) -> list[Table]:
    """Every table that has rows; without the column of runs where there is one run."""
    makers = (overview, encoding, stability, localisation, faithfulness, information)
    made = [table for make in makers if (table := make(studies)).rows]
    if len(studies) > 1:
        return made
    return [with_columns(t, [i for i, name in enumerate(t.head) if name != "run"]) for t in made]


def overview(studies: Studies) -> Table:
    """One row per run: accuracy, localisation of the maps, verdict."""
    rows = []
    for label, study in studies.items():
        own = own_localisation(study)
        gradcam = study.localisation.get("gradcam")
        rows.append(
            (
                label,
                study.model,
                study.profile or NOTHING,
                f"{study.accuracy:.2f}",
                number(own.auroc, 3),
                number(_outside(own.energy_inside), 1, 100),
                number(_outside(gradcam.energy.value if gradcam else None), 1, 100),
                study.verdict.name if study.verdict else NOTHING,
            )
        )
    head = (
        "run",
        "model",
        "profile",
        "accuracy %",
        "own map's AUROC",
        "its mass on background %",
        "Grad-CAM's mass there %",
        "map is",
    )
    note = "Deterministic passes, no noise."
    if any(study.localisation for study in studies.values()):
        note += f" AUROC and mass on {_subset(studies)} images, as in the table of maps below."
    return Table("Accuracy and maps", head, tuple(rows), note)


def own_localisation(study: Study) -> OwnLocalisation:
    """The model's own maps against the masks, on the images that all kinds of maps share.

    Over all images where nothing was compared: a page states each metric once.
    """
    found = study.localisation.get("own")
    if found is None:
        return study.own_localisation
    return OwnLocalisation(found.pointing.value, found.energy.value, found.auroc.value)


def stability(studies: Studies) -> Table:
    """The interpretability score at three thresholds, the centred cosine, and the paper's score."""
    rows = []
    for name in dict.fromkeys(name for study in studies.values() for name in study.stability):
        for label, study in studies.items():
            found = study.stability.get(name)
            if found is None or PRIMARY_TAU not in found.score or found.centred_mean is None:
                continue
            scores = [
                _interval(found.score[tau]) if tau == PRIMARY_TAU else _value(found.score[tau], 1)
                for tau in TAUS
            ]
            rows.append(
                (
                    name,
                    label,
                    *scores,
                    number(study.paper.get(name), 2),
                    _value(found.centred[PRIMARY_TAU], 1),
                    _value(found.centred_mean, 3),
                    _value(found.prediction_consistent, 1),
                    number(found.contrast, 3),
                    number(found.flat, 0),
                )
            )
    head = (
        "modification",
        "run",
        *(f"score ≥{tau:g}" for tau in TAUS),
        "paper",
        f"centred ≥{PRIMARY_TAU:g}",
        "mean r",
        "same class %",
        "contrast",
        "flat",
    )
    note = (
        "Score: share of the images with unchanged prediction whose map keeps its cosine, with a "
        "95% interval. A constant map scores 100: read it with the centred cosine, the contrast "
        "and the number of flat maps. The paper does not give its threshold."
    )
    return Table(STABILITY, head, tuple(rows), note)


def localisation(studies: Studies) -> Table:
    """Pointing game, energy inside and AUROC by kind of map."""
    rows = [
        (
            NAMES[kind],
            label,
            _interval(found.pointing, 100),
            _interval(found.energy, 100),
            number(_outside(found.energy.value), 1, 100),
            _interval(found.auroc, 1, 3),
            number(found.auroc.undefined, 0),
        )
        for label, study in studies.items()
        for kind, found in study.localisation.items()
    ]
    head = ("map", "run", "pointing %", "energy inside %", "on background %", "AUROC", "undefined")
    note = (
        f"On {_subset(studies)} images. An AUROC below 0.5 is a map that highlights the "
        "background; it is never inverted. It is undefined for images that the object fills."
    )
    return Table("Where is the object?", head, tuple(rows), note)


def faithfulness(studies: Studies) -> Table:
    """Areas under the deletion and insertion curves by kind of map."""
    rows = [
        (
            NAMES[kind],
            label,
            _interval(found.deletion, 1, 3),
            _interval(found.insertion, 1, 3),
            number(found.completeness_gap, 1, 100),
        )
        for label, study in studies.items()
        for kind, found in study.faithfulness.items()
    ]
    head = ("map", "run", "deletion (low is good)", "insertion (high is good)", GAP)
    note = f"On {_subset(studies)} images; missing pixels are blurred."
    table = Table("Does the probability go where the map says?", head, tuple(rows), note)
    if all(row[-1] == NOTHING for row in rows):
        return with_columns(table, range(len(head) - 1))
    gap = (
        f" {GAP}: how far the sum of Integrated Gradients is from the change of the class score "
        "between the mean colour and the image, relative to that change. Exact ones have 0; with "
        "32 steps they are approximations."
    )
    return replace(table, note=note + gap)


def information(studies: Studies) -> Table:
    """Bits, anchors and energy."""
    rows = [
        (
            label,
            number(info.kl_bits, 1),
            number(info.entropy_bits, 2),
            number(info.perplexity, 1),
            number(info.energy_passed, 1, 100),
            number(info.contrast, 3),
        )
        for label, info in ((label, study.information) for label, study in studies.items())
    ]
    head = (
        "run",
        "KL, bits per image",
        "entropy of a map's levels, bits",
        "anchors in use",
        "feature energy passed %",
        "contrast",
    )
    note = (
        "Anchors in use: the perplexity, 2 to the power of the entropy. Energy passed is above "
        "100% where features are multiplied by 1 + a (the released profile, ABN). Contrast is the "
        "highest score of a map minus the lowest."
    )
    return Table("How much information?", head, tuple(rows), note)


def reliance(studies: Studies) -> Table:
    """Accuracy lost when the map is replaced."""
    rows = [
        (
            label,
            f"{100 * found.accuracy:.2f}",
            *(_drop(found.replaced[name]) for name in ("mean", "shuffled", "another")),
            study.verdict.name if study.verdict else NOTHING,
        )
        for label, study in studies.items()
        if isinstance(found := study.reliance, Reliance)
    ]
    head = ("run", "accuracy %", "its mean", "shuffled in space", "another image's map", "map is")
    note = (
        "Percentage points of accuracy lost with the map replaced by each of these (95% interval). "
        "Used: one interval lies above one point. Decorative: all lie below. Undecided: neither, "
        "or there is too little accuracy to lose."
    )
    return Table("Does the decision need the map?", head, tuple(rows), note)


def encoding(studies: Studies) -> Table:
    """What the swaps of maps cost, and how well the map alone tells the class."""
    rows = []
    for label, study in studies.items():
        found = study.encoding
        if found is None or not isinstance(study.reliance, Reliance):
            continue
        rows.append(
            (
                label,
                _drop(study.reliance.replaced["another"]),
                *(_drop(found.swaps[n]) if n in found.swaps else NOTHING for n in SWAPS),
                f"{_interval(found.follows, 100)} / {100 * found.follows_chance:.1f}",
                _interval(found.blank, 100),
                _interval(found.probe["map"], 100),
                _interval(found.probe.get("mask", Estimate()), 100),
                _interval(found.probe["centre"], 100),
                f"{100 * found.probe_chance:.1f}",
            )
        )
    head = (
        "run",
        "another image's map",
        "of the same class",
        "of another class",
        "follow the map / chance %",
        "blank image %",
        "probe: map %",
        "probe: mask %",
        "probe: centre %",
        "most frequent class %",
    )
    left_out = sum(sum(s.encoding.left_out.values()) for s in studies.values() if s.encoding)
    note = (
        "The first three: percentage points of accuracy lost with the map of another image, of one "
        "with the same predicted class, and of one with another (95% interval). Follow: under the "
        "map of another class, the prediction is that class. Blank: the model's accuracy with a "
        "blank image under the image's own map. Probe: accuracy of a small CNN that sees nothing "
        "but the map, the object's mask, or a centred Gaussian."
    )
    if left_out:
        note += f" {left_out:,} images without such a partner were left out of a swap."
    return Table(ENCODING, head, tuple(rows), note)


def randomisation_text(study: Study) -> str | None:
    """The result of the layer randomisation; None where it was not run."""
    changes = study.randomised_layers
    if not changes:
        return None
    pearson = changes[-1].pearson
    r = "undefined (flat maps)" if pearson is None else f"{pearson:.2f}"
    return (
        f"With all {len(changes)} layers randomised, the map's correlation with the original map "
        f"is {r}; a value near 1 would mean that it shows the image and nothing learnt."
    )


def write_csv(path: Path, runs: Mapping[str, ImageMetrics], classes: Sequence[str]) -> None:
    """One row per run and image, one column per metric; empty where undefined."""
    names = list(dict.fromkeys(name for metrics in runs.values() for name in metrics.columns))

    def write(partial: Path) -> None:
        with partial.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["run", "class", *(name.replace(" ", "_") for name in names)])
            for label, metrics in runs.items():
                lists = {name: values.tolist() for name, values in metrics.columns.items()}
                for i, y in enumerate(lists["label"]):
                    cells = [lists[name][i] if name in lists else None for name in names]
                    out.writerow([label, classes[y] if classes else y, *map(_cell, cells)])

    write_whole(path, write)


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return value


def _outside(inside: float | None) -> float | None:
    return None if inside is None else 1 - inside


def _subset(studies: Studies) -> str:
    counts = sorted({study.subset_images for study in studies.values()})
    return " or ".join(f"{count:,}" for count in counts)


def _value(found: Estimate, digits: int) -> str:
    return number(found.value, digits)


def _drop(drop: Drop) -> str:
    return f"{points(drop.drop)} ({points(drop.low)} to {points(drop.high)})"


def _interval(found: Estimate, times: float = 1.0, digits: int = 1) -> str:
    text = number(found.value, digits, times)
    if found.value is None or found.low is None or found.high is None:
        return text
    return f"{text} ({number(found.low, digits, times)}-{number(found.high, digits, times)})"
