"""The study's figures as tables: one list of rows for the terminal, the CSV file and the report.

Several runs stand side by side; they saw the same modified images.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from aib.figures.table import NOTHING, Table, number, with_columns
from aib.files import write_whole
from aib.interpret.metrics.reliance import points
from aib.interpret.metrics.score import PRIMARY_TAU, TAUS

Results = Mapping[str, Mapping[str, Any]]  # label of a run -> its interpret.json

STABILITY = "Do maps stay put?"
GAP = "completeness gap %"
NAMES = {
    "own": "own map",
    "gradcam": "Grad-CAM",
    "integrated_gradients": "Integrated Gradients",
    "centre": "centre Gaussian (control)",
    "random": "random (control)",
}


def all_tables(results: Results) -> list[Table]:
    """Every table that the results can fill."""
    made = [
        overview(results),
        stability(results),
        localisation(results),
        faithfulness(results),
        information(results),
    ]
    made = [table for table in made if table.rows]
    return made if len(results) > 1 else [_without_run(table) for table in made]


def _without_run(table: Table) -> Table:
    """With one run there is no need to say which."""
    return with_columns(table, [at for at, name in enumerate(table.head) if name != "run"])


def overview(results: Results) -> Table:
    """One row a run: accuracy, and where the maps' mass lies if that can be said."""
    rows = []
    for label, result in results.items():
        own = own_localisation(result)
        gradcam = result["localisation"].get("gradcam", {})
        rows.append(
            (
                label,
                result["model"],
                result.get("profile") or NOTHING,
                f"{result['accuracy']:.2f}",
                number(own.get("auroc"), 3),
                number(_outside(own.get("energy")), 1, 100),
                number(_outside(gradcam.get("energy")), 1, 100),
                result["reliance"]["verdict"] or NOTHING,
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
    if any(result["localisation"] for result in results.values()):
        note += f" AUROC and mass on {_subset(results)} images, as in the table of maps below."
    return Table("Accuracy and maps", head, tuple(rows), note)


def own_localisation(result: Mapping[str, Any]) -> Mapping[str, float | None]:
    """Our maps against the masks, on the images that all methods were compared on.

    Over all images where nothing was compared: one page states one figure of a kind.
    """
    compared: Mapping[str, float | None] | None = result.get("localisation", {}).get("own")
    whole = result.get("localisation_own_all_images", {})
    return compared or {"auroc": whole.get("auroc"), "energy": whole.get("energy_inside")}


def stability(results: Results) -> Table:
    """The interpretability score at three thresholds, the centred cosine, and the paper's."""
    rows = []
    names = list(dict.fromkeys(name for r in results.values() for name in r["stability"]))
    for name in names:
        for label, result in results.items():
            figures = result["stability"].get(name)
            if figures is None or f"score_{PRIMARY_TAU:g}" not in figures:
                continue
            scores = [
                _interval(figures, f"score_{tau:g}")
                if tau == PRIMARY_TAU
                else number(figures[f"score_{tau:g}"], 1)
                for tau in TAUS
            ]
            rows.append(
                (
                    name,
                    label,
                    *scores,
                    number(result["paper"].get(name), 2),
                    number(figures[f"centred_{PRIMARY_TAU:g}"], 1),
                    number(figures["centred_mean"], 3),
                    number(figures["prediction_consistent"], 1),
                    number(figures["contrast"], 3),
                    number(figures["flat"], 0),
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
        "Share of images of unchanged prediction whose map keeps its cosine, with its 95% "
        "interval. A constant map scores 100: read it with the centred cosine, the contrast and "
        "the count of flat maps. The paper does not give its threshold."
    )
    return Table(STABILITY, head, tuple(rows), note)


def localisation(results: Results) -> Table:
    """Pointing game, energy inside, AUROC by source of maps."""
    rows = [
        (
            NAMES[source],
            label,
            _interval(figures, "pointing", 100),
            _interval(figures, "energy", 100),
            number(_outside(figures.get("energy")), 1, 100),
            _interval(figures, "auroc", 1, 3),
            number(figures.get("auroc_undefined"), 0),
        )
        for label, result in results.items()
        for source, figures in result["localisation"].items()
    ]
    head = ("map", "run", "pointing %", "energy inside %", "on background %", "AUROC", "undefined")
    note = (
        f"On {_subset(results)} images. An AUROC below 0.5 is a map that highlights the "
        "background; it is never turned round. It is undefined for images whose object fills "
        "everything."
    )
    return Table("Where is the object?", head, tuple(rows), note)


def faithfulness(results: Results) -> Table:
    """Areas under the deletion and insertion curves by source of maps."""
    rows = [
        (
            NAMES[source],
            label,
            _interval(figures, "deletion", 1, 3),
            _interval(figures, "insertion", 1, 3),
            number(figures.get("completeness_gap"), 1, 100),
        )
        for label, result in results.items()
        for source, figures in result["faithfulness"].items()
    ]
    head = ("map", "run", "deletion (low is good)", "insertion (high is good)", GAP)
    note = f"On {_subset(results)} images; missing pixels are blurred."
    table = Table("Does the probability go where the map says?", head, tuple(rows), note)
    if all(row[-1] == NOTHING for row in rows):
        return with_columns(table, range(len(head) - 1))
    gap = (
        f" {GAP}: how far the sum of Integrated Gradients is from the change of the class score "
        "between the mean colour and the image, relative to that change. Exact ones have 0; with "
        "32 steps they are approximations."
    )
    return replace(table, note=note + gap)


def information(results: Results) -> Table:
    """Bits, anchors and energy."""
    rows = [
        (
            label,
            number(info["kl_bits"], 1),
            number(info["entropy_bits"], 2),
            number(info["perplexity"], 1),
            number(info["energy_passed"], 1, 100),
            number(info["contrast"], 3),
        )
        for label, info in ((label, r["information"]) for label, r in results.items())
    ]
    head = (
        "run",
        "KL, bits an image",
        "entropy of a map's levels, bits",
        "anchors in use",
        "feature energy passed %",
        "contrast",
    )
    note = (
        "Anchors in use: 2 to the power of the entropy, so many as equal use would take. Energy "
        "passed is above 100% where features are multiplied by 1 + a (the released profile, ABN). "
        "Contrast is the highest score of a map less the lowest."
    )
    return Table("How much information?", head, tuple(rows), note)


def reliance(results: Results) -> Table:
    """What the accuracy loses with another map in the map's place."""
    rows = [
        (
            label,
            f"{100 * found['accuracy']:.2f}",
            *(_drop(found["replaced"][name]) for name in ("mean", "shuffled", "another")),
            found["verdict"],
        )
        for label, found in ((label, r["reliance"]) for label, r in results.items())
        if found["verdict"]
    ]
    head = (
        "run", "accuracy %", "its mean everywhere", "its places shuffled", "another image's map",
        "map is",
    )  # fmt: skip
    note = (
        "Points of accuracy lost with that in the map's stead (95% interval). Used: the interval "
        "of one of them lies above one point. Decorative: all lie below. Undecided: neither, or "
        "there is too little accuracy to lose."
    )
    return Table("Does the decision need the map?", head, tuple(rows), note)


def _drop(drop: Mapping[str, float]) -> str:
    return "{} ({} to {})".format(*(points(drop[name]) for name in ("drop", "low", "high")))


def randomisation_words(result: Mapping[str, Any]) -> list[str]:
    """What the layer randomisation came to, in a sentence."""
    changes = result["randomised_layers"]
    if not changes:
        return []
    last = changes[-1]
    r = "undefined (flat maps)" if last["pearson"] is None else f"{last['pearson']:.2f}"
    return [
        f"With all {len(changes)} layers randomised the map's correlation with itself is {r}; "
        "near 1 would mean that it shows the image and nothing that was learnt."
    ]


def write_csv(
    path: Path, surveys: Mapping[str, Mapping[str, Tensor]], classes: Sequence[str]
) -> None:
    """A row an image and run, a column a figure; empty where undefined."""
    names = list(dict.fromkeys(name for columns in surveys.values() for name in columns))

    def write(partial: Path) -> None:
        with partial.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["run", "class", *(name.replace(" ", "_") for name in names)])
            for label, columns in surveys.items():
                lists = {name: values.tolist() for name, values in columns.items()}
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


def _subset(results: Results) -> str:
    counts = sorted({r["subset_images"] for r in results.values()})
    return " or ".join(f"{count:,}" for count in counts)


def _interval(figures: Mapping[str, Any], name: str, times: float = 1.0, digits: int = 1) -> str:
    value, low, high = (figures.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return NOTHING
    text = number(value, digits, times)
    if low is None or high is None:
        return text
    return f"{text} ({number(low, digits, times)}-{number(high, digits, times)})"
