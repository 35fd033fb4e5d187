"""The parts of a page, which are macros of templates/blocks.html, and the page made of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from aib.version import __version__

# Shown on hover over the name of a column that contains the term.
TERMS = {
    "calibration error": "mean distance between confidence and accuracy over bins of confidence",
    "NLL": "negative log-likelihood of the true class, averaged over images; lower is better",
    "top-5": "share of the images whose class is not among the five most probable ones",
    "AUROC": "probability that a pixel of the object scores higher on the map than one of the "
    "background; 1 is perfect, 0.5 is chance",
    "latent": "the representation z that the classifier decides from; bits: its KL divergence to "
    "the prior, an upper bound on what it keeps of the image",
    "KL": "Kullback-Leibler divergence of the latent to its prior: an upper bound on what the "
    "latent keeps of the image",
    "anchors": "the learnt levels that a quantised map consists of",
    "entropy": "bits per position that the levels of the map take",
    "energy passed": "share of the features' squared values that the map lets through",
    "contrast": "highest value of a map minus the lowest",
    "pointing": "pointing game: share of the images whose map is highest on the object",
    "mass inside": "share of the map's sum that lies on the object",
    "deletion": "area under the probability of the class while the pixels that the map ranks "
    "highest are removed",
    "insertion": "area under the probability of the class while the pixels that the map ranks "
    "highest are added",
    "ROAD": "deletion with pixels filled in from their neighbours",
    "IoU": "intersection over union: overlap of two regions, 1 where they are equal",
    "MaxBoxAccV2": "share of the images whose object the map boxes, over three strictnesses",
    "PxAP": "average precision of the map's pixels against the object's",
    "probe": "accuracy of a small network that sees only the map",
}


def meaning(name: str) -> str | None:
    """What the terms in a name mean; None where there are none."""
    found = [text for term, text in TERMS.items() if term.lower() in name.lower()]
    return "; ".join(found) or None


def code_spans(text: str) -> Markup:
    """Escaped text with `code` as <code>."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


_templates = Environment(
    loader=PackageLoader("aib.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_templates.filters |= {"code_spans": code_spans, "meaning": meaning}
# Each macro gives a block of the page: `blocks.text("Trained on ...", soft=True)`.
blocks: Any = _templates.get_template("blocks.html").module


@dataclass(frozen=True)
class Section:
    """A heading with its blocks. A section without blocks is not shown."""

    title: str
    anchor: str
    blocks: Sequence[Markup]


def render(
    title: str, sections: Sequence[Section], links: Sequence[tuple[str, str]] | None = None
) -> str:
    """The HTML page. `links` are (anchor, name) pairs; one per section if not given."""
    shown = [section for section in sections if section.blocks]
    return _templates.get_template("page.html").render(
        title=title,
        sections=shown,
        links=[(s.anchor, s.title) for s in shown] if links is None else links,
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
