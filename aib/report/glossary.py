"""Meanings of the terms on a page: on hover over a column's name, and below the page."""

from collections.abc import Iterable

# By a part of a column's or card's name.
TERMS = {
    "calibration error": "mean distance between confidence and accuracy over bins of confidence; "
    "0 for a model that is right as often as it says",
    "NLL": "negative log-likelihood of the true class, averaged over images; lower is better",
    "top-5": "share of the images whose class is not among the five most probable ones",
    "AUROC": "probability that a pixel of the object scores higher on the map than one of the "
    "background; 1 is perfect, 0.5 is chance",
    "latent": "the representation z that the decision is made from; bits: its KL divergence to the "
    "prior, an upper bound on what it keeps of the image",
    "KL": "Kullback-Leibler divergence of the latent to its prior: an upper bound on what the "
    "latent keeps of the image",
    "anchors": "the learnt levels that a quantised map consists of",
    "entropy": "bits needed per position to write down which level a map has there",
    "energy passed": "share of the features' squared values that the map lets through",
    "contrast": "highest value of a map minus the lowest",
    "pointing": "pointing game: share of the images whose map is highest on the object",
    "energy inside": "share of the map's sum that lies on the object",
    "deletion": "area under the probability of the class while the pixels that the map ranks "
    "highest are removed",
    "insertion": "area under the probability of the class while the pixels that the map ranks "
    "highest are added",
    "ROAD": "deletion with pixels filled in from their neighbours, so that their shape tells less",
    "IoU": "intersection over union: overlap of two regions, 1 where they are equal",
    "MaxBoxAccV2": "share of the images whose object the map boxes, over three strictnesses",
    "PxAP": "average precision of the map's pixels against the object's",
    "probe": "a small network that sees only the map: what it gets right, the map gives away",
}


def meaning(name: str) -> str | None:
    """What the terms in a name mean; None where there are none."""
    found = [text for term, text in TERMS.items() if term.lower() in name.lower()]
    return "; ".join(found) or None


def used_terms(names: Iterable[str]) -> list[tuple[str, str]]:
    """(term, meaning) of the terms in any of these names."""
    words = "\n".join(names).lower()
    return [(term, text) for term, text in TERMS.items() if term.lower() in words]
