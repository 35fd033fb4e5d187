"""Tables of what the map does for the decision: its use, its information, and a model's mask."""

from collections.abc import Mapping

from aib.evaluation.intervals import Estimate
from aib.figures.table import NOTHING, Table, number, table_of
from aib.interpret.metrics.encoding import SWAPS
from aib.interpret.metrics.reliance import Reliance
from aib.interpret.results import Study


def encoding(studies: Mapping[str, Study]) -> Table:
    """What the swaps of maps cost, and how well the map alone tells the class."""
    rows, left_out = [], 0
    for label, study in studies.items():
        found = study.encoding
        if found is None or not isinstance(study.reliance, Reliance):
            continue
        left_out += sum(found.left_out.values())
        same, other = (found.swaps[n].text if n in found.swaps else NOTHING for n in SWAPS)
        rows.append(
            {
                "run": label,
                "another image's map": study.reliance.replaced["another"].text,
                "of the same class": same,
                "of another class": other,
                "follow the map / chance %": f"{found.follows.format(times=100)} / "
                f"{100 * found.follows_chance:.1f}",
                "blank image %": found.blank.format(times=100),
                "probe: map %": found.probe["map"].format(times=100),
                "probe: mask %": found.probe.get("mask", Estimate()).format(times=100),
                "probe: centre %": found.probe["centre"].format(times=100),
                "most frequent class %": f"{100 * found.probe_chance:.1f}",
            }
        )
    note = (
        "The first three: percentage points of accuracy lost with the map of another image, of one "
        "with the same predicted class, and of one with another (95% interval). Follow: under the "
        "map of another class, the prediction is that class. Blank: the model's accuracy with a "
        "blank image under the image's own map. Probe: accuracy of a small CNN that sees nothing "
        "but the map, the object's mask, or a centred Gaussian."
    )
    if left_out:
        note += f" {left_out:,} images without such a partner were left out of a swap."
    return table_of("Does the map give the class away?", rows, note)


def information(studies: Mapping[str, Study]) -> Table:
    """Bits, anchors and energy."""
    rows = [
        {
            "run": label,
            "KL without noise, bits per image": number(study.information.kl_bits, 1),
            "entropy of a map's levels, bits": number(study.information.entropy_bits, 2),
            "anchors in use": number(study.information.perplexity, 1),
            "feature energy passed %": number(study.information.energy_passed, 1, 100),
            "contrast": number(study.information.contrast, 3),
        }
        for label, study in studies.items()
    ]
    note = (
        "Entropy: of one map's levels, averaged over the images. Anchors in use: the perplexity, 2 "
        "to the power of the entropy of all maps together. Energy passed is above 100% where "
        "features are multiplied by 1 + a (the released profile, ABN). Contrast is the highest "
        "score of a map minus the lowest."
    )
    return table_of("How much information?", rows, note)


def mask(studies: Mapping[str, Study]) -> Table:
    """How much of each image the mask opens, and what passes."""
    rows = [
        {
            "run": label,
            "closed, m = 0 %": f"{found.closed:.1f}",
            "open, m = 1 %": f"{found.open:.1f}",
            "area %": f"{found.area:.1f}",
            "bits per image": f"{found.bits:,.0f}",
            "bits through m < 0.5 %": number(found.faint_bits, 1),
            "noise changes the prediction %": f"{found.prediction_changes:.1f}",
            "probability ± points": f"{found.probability_std:.1f}",
        }
        for label, study in studies.items()
        if (found := study.mask)
    ]
    note = (
        "Means over the images. Bits: an upper bound on what the pixels tell given the mask; the "
        "shape of the mask is not counted. Noise: images whose prediction is not the same in 4 "
        "passes with new noise, and the standard deviation of the predicted class's probability."
    )
    return table_of("What does the mask let through?", rows, note)


def changed_mask(studies: Mapping[str, Study]) -> Table:
    """Accuracy lost with the mask changed."""
    rows = [
        {
            "run": label,
            "accuracy %": f"{found.accuracy:.2f}",
            "m < 0.1 closed": found.without_faint.format(2, to=" to "),
            "rounded to 0 or 1": found.rounded.format(2, to=" to "),
            "shifted by one cell": found.shifted.format(2, to=" to "),
            "blurred": found.blurred.format(2, to=" to "),
        }
        for label, study in studies.items()
        if (found := study.mask)
    ]
    note = (
        "Percentage points of accuracy lost with the mask changed (95% interval). A model that "
        "loses much reads the faint or the exact values of its mask."
    )
    return table_of("Does closed mean closed?", rows, note)
