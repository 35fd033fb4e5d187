"""The results of studies as tables, for the terminal, the report and the docs.

Several runs stand side by side; they saw the same modified images.
"""

from collections.abc import Mapping
from dataclasses import replace

from aib.evaluation.intervals import Estimate
from aib.figures.table import NOTHING, Table, number, table_of, without, without_empty_columns
from aib.interpret.decision_tables import changed_mask, encoding, information, mask
from aib.interpret.metrics.evaluator import SHARES
from aib.interpret.metrics.score import PRIMARY_TAU, TAUS
from aib.interpret.results import OwnLocalisation, Study

Studies = Mapping[str, Study]  # by label of the run

STABILITY = "Do maps stay put?"
EVALUATOR = "Would another classifier decide the same from these pixels?"
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
    """The tables that `aib interpret` prints, of studies by name: those that have rows. Without the
    column of runs where there is one run."""
    makers = (
        overview, encoding, stability, localisation, thresholded, faithfulness, evaluator,
        information, mask, changed_mask,
    )  # fmt: skip
    made = [table for make in makers if (table := make(studies)).rows]
    return made if len(studies) > 1 else [without(table, "run") for table in made]


def overview(studies: Studies) -> Table:
    """One row per run: accuracy, localisation of the maps, verdict."""
    rows = []
    for label, study in studies.items():
        own, gradcam = own_localisation(study), study.localisation.get("gradcam")
        rows.append(
            {
                "run": label,
                "model": study.model,
                "profile": study.profile or NOTHING,
                "accuracy %": f"{study.accuracy:.2f}",
                "own map's AUROC": number(own.auroc, 3),
                "its mass on background %": _outside(own.energy_inside),
                "Grad-CAM's mass there %": _outside(gradcam.energy.value if gradcam else None),
                "map is": study.verdict.name if study.verdict else NOTHING,
            }
        )
    noise = ", no noise"
    if any(study.mask for study in studies.values()):
        noise = ": no noise but one fixed field in closed pixels of masked models"
    note = f"Deterministic passes{noise}."
    if any(study.localisation for study in studies.values()):
        note += f" AUROC and mass on {_subset(studies)} images, as in the table of maps below."
    return table_of("Accuracy and maps", rows, note)


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
                scores = {f"score ≥{t:g}": number(found.score[t].value, 1) for t in TAUS}
                scores[f"score ≥{PRIMARY_TAU:g}"] = found.score[PRIMARY_TAU].format()
                rows.append(
                    {
                        "modification": name,
                        "map": map_name(kind),
                        "run": label,
                        **scores,
                        "paper": number(study.paper.get(name) if kind == "own" else None, 2),
                        f"centred ≥{PRIMARY_TAU:g}": number(found.centred[PRIMARY_TAU].value, 1),
                        "mean r": number(found.centred_mean.value, 3),
                        "same class %": number(found.prediction_consistent.value, 1),
                        "contrast": number(found.contrast, 3),
                        "flat": number(found.flat, 0),
                    }
                )
    note = (
        "Score: share of the images with unchanged prediction whose map keeps its cosine, with a "
        "95% interval. A constant map scores 100: read it with the centred cosine, the contrast "
        "and the number of flat maps. The paper does not give its threshold."
    )
    table = table_of(STABILITY, rows, note)
    several = any(study.map_stability for study in studies.values())
    return table if several else without(table, "map")


def localisation(studies: Studies) -> Table:
    """Pointing game, mass inside and AUROC by kind of map."""
    rows = [
        {
            "map": map_name(kind),
            "run": label,
            "pointing %": found.pointing.format(times=100),
            "mass inside %": found.energy.format(times=100),
            "on background %": _outside(found.energy.value),
            "AUROC": found.auroc.format(3),
            "undefined": number(found.auroc.undefined, 0),
        }
        for label, study in studies.items()
        for kind, found in study.localisation.items()
    ]
    note = (
        f"On {_subset(studies)} images. An AUROC below 0.5 is a map that highlights the "
        "background; it is never inverted. It is undefined for images that the object fills, "
        "and without an object or a mask."
    )
    return table_of("Where is the object?", rows, note)


def thresholded(studies: Studies) -> Table:
    """MaxBoxAccV2, PxAP and mask IoU by kind of map; without columns that nothing defines."""
    rows = [
        {
            "map": map_name(kind),
            "run": label,
            "MaxBoxAccV2 %": _percent(found.max_box_acc),
            "any component %": _percent(found.max_box_acc_any),
            "at IoU 0.5 %": _percent(found.max_box_acc_at.get(0.5)),
            "held-out threshold: boxes %": _percent(found.box_acc_held_out),
            "PxAP %": _percent(found.pxap),
            "mask IoU %": _percent(found.mask_iou),
            "held-out threshold: mask IoU %": _percent(found.mask_iou_held_out),
        }
        for label, study in studies.items()
        for kind, found in study.localisation.items()
        if found.max_box_acc is not None
    ]
    note = (
        f"On {_subset(studies)} images; maps scaled to their own range and cut at a threshold. "
        "MaxBoxAccV2: share of images whose largest component has the box of the object, averaged "
        "over three IoUs. PxAP: area under the precision-recall curve of all pixels. As published, "
        "the threshold is the best one on these same images."
    )
    if any(row["any component %"] != NOTHING for row in rows):
        note += " Any component: the one that fits best in place of the largest, as published."
    sources = sorted({s.threshold_images for s in studies.values() if s.threshold_images})
    if any(row["held-out threshold: boxes %"] != NOTHING for row in rows) and sources:
        note += f" Held-out thresholds are the best ones on {' or '.join(sources)}."
    return without_empty_columns(table_of("Which box, which pixels?", rows, note))


def faithfulness(studies: Studies) -> Table:
    """Areas under the deletion, insertion and ROAD curves by kind of map."""
    rows = [
        {
            "map": map_name(kind),
            "run": label,
            "deletion (low is good)": found.deletion.format(3),
            "insertion (high is good)": found.insertion.format(3),
            "ROAD, most relevant first (low is good)": (found.road_morf or Estimate()).format(3),
            "ROAD, least relevant first (high is good)": (found.road_lerf or Estimate()).format(3),
            GAP: number(found.completeness_gap, 1, 100),
        }
        for label, study in studies.items()
        for kind, found in study.faithfulness.items()
    ]
    table = without_empty_columns(table_of("Does the probability go where the map says?", rows))
    note = f"On {_subset(studies)} images; missing pixels are blurred."
    if any("ROAD" in name for name in table.head):
        note += " ROAD fills them in from their neighbours, with a little noise."
    if GAP in table.head:
        note += (
            f" {GAP}: how far the sum of Integrated Gradients is from the change of the class "
            "score between the mean colour and the image, relative to that change. Exact ones have "
            "0; with 32 steps they are approximations."
        )
    return replace(table, note=note)


def evaluator(studies: Studies) -> Table:
    """Accuracy of an evaluator with the best pixels of each kind of map."""
    judged = {label: study.evaluator for label, study in studies.items() if study.evaluator}
    rows = [
        {
            "map": map_name(kind),
            "run": label,
            **{f"{100 * s:.0f}% kept": curve.accuracy.get(s, Estimate()).format() for s in SHARES},
            "area": curve.area.format(),
            "over random": (curve.over_random or Estimate()).format(to=" to ", sign="+"),
            "over centre": (curve.over_centre or Estimate()).format(to=" to ", sign="+"),
        }
        for label, found in judged.items()
        for kind, curve in found.maps.items()
    ]
    whole = dict.fromkeys(f"{found.run} ({found.accuracy:.1f}%)" for found in judged.values())
    note = (
        f"Accuracy of an evaluator, trained on random masks, with the map's best pixels and noise "
        f"elsewhere, on {_subset(studies)} images. Area: under this curve, as a mean accuracy. "
        "Over: its difference to a control in points, paired by image. A map that encodes the "
        "class in its shape gains nothing here. Evaluator, with its accuracy on whole images: "
        f"{', '.join(whole)}."
    )
    return table_of(EVALUATOR, rows, note)


def randomisation_text(study: Study) -> str | None:
    """The result of the layer randomisation; None where it was not run."""
    changes = study.randomised_layers
    if not changes:
        return None
    pearson = changes[-1].pearson
    r = "undefined (the maps are flat or NaN)" if pearson is None else f"{pearson:.2f}"
    return (
        f"With all {len(changes)} layers randomised, the map's correlation with the original map "
        f"is {r}; a value near 1 would mean that it shows the image and nothing learnt."
    )


def _outside(inside: float | None) -> str:
    return number(None if inside is None else 1 - inside, 1, 100)


def _percent(found: Estimate | None) -> str:
    return NOTHING if found is None else found.format(times=100)


def _subset(studies: Studies) -> str:
    counts = sorted({study.subset_images for study in studies.values()})
    return " or ".join(f"{count:,}" for count in counts)
