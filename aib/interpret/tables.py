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
from aib.interpret.metrics.evaluator import SHARES
from aib.interpret.metrics.mask_use import MaskUse
from aib.interpret.metrics.reliance import Drop, Reliance, points
from aib.interpret.metrics.score import PRIMARY_TAU, TAUS
from aib.interpret.per_image import ImageMetrics
from aib.interpret.results import OwnLocalisation, Study

Studies = Mapping[str, Study]  # by label of the run

STABILITY = "Do maps stay put?"
EVALUATOR = "Would another classifier decide the same from these pixels?"
ENCODING = "Does the map give the class away?"
GAP = "completeness gap %"
NAMES = {
    "own": "own map",
    "gradcam": "Grad-CAM",
    "integrated_gradients": "Integrated Gradients",
    "centre": "centre Gaussian (control)",
    "random": "random (control)",
}


def map_name(kind: str) -> str:
    """A kind of map in words; a map that was given has its own name."""
    return NAMES.get(kind, kind)


def all_tables(studies: Studies) -> list[Table]:
    """Every table that has rows; without the column of runs where there is one run."""
    makers = (
        overview,
        encoding,
        stability,
        localisation,
        thresholded,
        faithfulness,
        evaluator,
        information,
        mask,
        changed_mask,
    )
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
    if _masks(studies):
        note = (
            "Deterministic passes: no noise but one fixed field in closed pixels of masked models."
        )
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
            for kind, by_name in {"own": study.stability, **study.map_stability}.items():
                found = by_name.get(name)
                if found is None or PRIMARY_TAU not in found.score or found.centred_mean is None:
                    continue
                score = {tau: _value(found.score[tau], 1) for tau in TAUS}
                score[PRIMARY_TAU] = _interval(found.score[PRIMARY_TAU])
                rows.append(
                    (
                        name,
                        map_name(kind),
                        label,
                        *score.values(),
                        number(study.paper.get(name) if kind == "own" else None, 2),
                        _value(found.centred[PRIMARY_TAU], 1),
                        _value(found.centred_mean, 3),
                        _value(found.prediction_consistent, 1),
                        number(found.contrast, 3),
                        number(found.flat, 0),
                    )
                )
    head = (
        "modification",
        "map",
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
    table = Table(STABILITY, head, tuple(rows), note)
    if any(study.map_stability for study in studies.values()):
        return table
    return with_columns(table, [i for i, column in enumerate(head) if column != "map"])


def localisation(studies: Studies) -> Table:
    """Pointing game, energy inside and AUROC by kind of map."""
    rows = [
        (
            map_name(kind),
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


def thresholded(studies: Studies) -> Table:
    """MaxBoxAccV2, PxAP and mask IoU by kind of map; without columns that nothing defines."""
    rows = [
        (
            map_name(kind),
            label,
            _interval(found.max_box_acc, 100),
            _interval(found.max_box_acc_at.get(0.5), 100),
            _interval(found.box_acc_held_out, 100),
            _interval(found.pxap, 100),
            _interval(found.mask_iou, 100),
            _interval(found.mask_iou_held_out, 100),
        )
        for label, study in studies.items()
        for kind, found in study.localisation.items()
        if found.max_box_acc is not None
    ]
    head = (
        "map",
        "run",
        "MaxBoxAccV2 %",
        "at IoU 0.5 %",
        "held-out threshold: boxes %",
        "PxAP %",
        "mask IoU %",
        "held-out threshold: mask IoU %",
    )
    note = (
        f"On {_subset(studies)} images; maps scaled to 0-1 and cut at a threshold. MaxBoxAccV2: "
        "share of images whose largest component has the box of the object (IoU 0.3, 0.5 and 0.7, "
        "averaged). PxAP: area under the precision-recall curve of all pixels. As published, the "
        "threshold is the best one on these same images."
    )
    sources = sorted({s.threshold_images for s in studies.values() if s.threshold_images})
    if sources:
        note += f" Held-out thresholds are the best ones on {' or '.join(sources)}."
    return _filled(Table("Which box, which pixels?", head, tuple(rows), note))


def faithfulness(studies: Studies) -> Table:
    """Areas under the deletion, insertion and ROAD curves by kind of map."""
    rows = [
        (
            map_name(kind),
            label,
            _interval(found.deletion, 1, 3),
            _interval(found.insertion, 1, 3),
            _interval(found.road_morf, 1, 3),
            _interval(found.road_lerf, 1, 3),
            number(found.completeness_gap, 1, 100),
        )
        for label, study in studies.items()
        for kind, found in study.faithfulness.items()
    ]
    head = (
        "map",
        "run",
        "deletion (low is good)",
        "insertion (high is good)",
        "ROAD, most relevant first (low is good)",
        "ROAD, least relevant first (high is good)",
        GAP,
    )
    note = f"On {_subset(studies)} images; missing pixels are blurred."
    table = _filled(Table("Does the probability go where the map says?", head, tuple(rows)))
    if any("ROAD" in name for name in table.head):
        note += " ROAD fills them in from their neighbours, with a little noise."
    if GAP not in table.head:
        return replace(table, note=note)
    gap = (
        f" {GAP}: how far the sum of Integrated Gradients is from the change of the class score "
        "between the mean colour and the image, relative to that change. Exact ones have 0; with "
        "32 steps they are approximations."
    )
    return replace(table, note=note + gap)


def evaluator(studies: Studies) -> Table:
    """Accuracy of an evaluator with the best pixels of each kind of map."""
    judged = {label: study.evaluator for label, study in studies.items() if study.evaluator}
    rows = [
        (
            map_name(kind),
            label,
            *(_interval(curve.accuracy.get(share, Estimate())) for share in SHARES),
            _interval(curve.area),
            *(_gain(gain) for gain in (curve.over_random, curve.over_centre)),
        )
        for label, found in judged.items()
        for kind, curve in found.maps.items()
    ]
    shares = (f"{100 * share:.0f}% kept" for share in SHARES)
    head = ("map", "run", *shares, "area", "over random", "over centre")
    whole = dict.fromkeys(f"{found.run} ({found.accuracy:.1f}%)" for found in judged.values())
    note = (
        f"Accuracy of an evaluator, trained on random masks, with the map's best pixels and noise "
        f"elsewhere, on {_subset(studies)} images. Area: under this curve, as a mean accuracy. "
        "Over: its difference to a control in points, paired by image. A map that encodes the "
        "class in its shape gains nothing here. Evaluator, with its accuracy on whole images: "
        f"{', '.join(whole)}."
    )
    return Table(EVALUATOR, head, tuple(rows), note)


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


def mask(studies: Studies) -> Table:
    """How much of each image the mask opens, and what passes."""
    rows = [
        (
            label,
            f"{found.closed:.1f}",
            f"{found.open:.1f}",
            f"{found.area:.1f}",
            f"{found.bits:,.0f}",
            number(found.faint_bits, 1),
            f"{found.prediction_changes:.1f}",
            f"{found.probability_std:.1f}",
        )
        for label, found in _masks(studies)
    ]
    head = (
        "run",
        "closed, m = 0 %",
        "open, m = 1 %",
        "area %",
        "bits per image",
        "bits through m < 0.5 %",
        "noise changes the prediction %",
        "probability ± points",
    )
    note = (
        "Means over the images. Bits: an upper bound on what the pixels tell given the mask; the "
        "shape of the mask is not counted. Noise: images whose prediction is not the same in 4 "
        "passes with new noise, and the standard deviation of the predicted class's probability."
    )
    return Table("What does the mask let through?", head, tuple(rows), note)


def changed_mask(studies: Studies) -> Table:
    """Accuracy lost with the mask changed."""
    rows = [
        (
            label,
            f"{found.accuracy:.2f}",
            *(
                _interval(lost, digits=2, to=" to ")
                for lost in (found.without_faint, found.rounded, found.shifted, found.blurred)
            ),
            _interval(found.blank),
        )
        for label, found in _masks(studies)
    ]
    head = (
        "run",
        "accuracy %",
        "m < 0.1 closed",
        "rounded to 0 or 1",
        "shifted by one cell",
        "blurred",
        "accuracy % on a blank image",
    )
    note = (
        "Percentage points of accuracy lost with the mask changed (95% interval). A model that "
        "loses much reads the faint or the exact values of its mask. Blank: the mean colour under "
        "each image's mask, where only the shape of the mask tells the class."
    )
    return Table("Does closed mean closed?", head, tuple(rows), note)


def _masks(studies: Studies) -> list[tuple[str, MaskUse]]:
    return [(label, study.mask) for label, study in studies.items() if study.mask]


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


def _filled(table: Table) -> Table:
    """The table without the columns that have no value in any row."""
    columns = range(len(table.head))
    return with_columns(table, [i for i in columns if any(r[i] != NOTHING for r in table.rows)])


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


def _gain(found: Estimate | None) -> str:
    if found is None or found.value is None or found.low is None or found.high is None:
        return NOTHING
    return f"{found.value:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def _drop(drop: Drop) -> str:
    return f"{points(drop.drop)} ({points(drop.low)} to {points(drop.high)})"


def _interval(found: Estimate | None, times: float = 1.0, digits: int = 1, to: str = "-") -> str:
    if found is None:
        return NOTHING
    text = number(found.value, digits, times)
    if found.value is None or found.low is None or found.high is None:
        return text
    return f"{text} ({number(found.low, digits, times)}{to}{number(found.high, digits, times)})"
