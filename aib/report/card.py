"""The model card of the Hugging Face Hub: what is known of a model, and what is not."""

import re
from collections.abc import Sequence
from typing import Any

from huggingface_hub import ModelCardData
from jinja2 import Environment, PackageLoader

from aib.evaluation.error import METRICS, Evaluation, metric_texts
from aib.interpret.stored import stored_verdict
from aib.models.classifier import needs_backbone
from aib.runs.run import Run
from aib.system.files import without_folders

CARD, PICTURE = "README.md", "maps.png"
TRUST = {
    "faithful": "The map may be shown as the evidence that the decision rests on.",
    "used": "The map shows where the decision looks; that this is evidence was not shown.",
}
NO_TRUST = "Do not show the map as an explanation of a decision."


def model_card(
    run: Run,
    repo: str,
    data: str,
    results: dict[str, Evaluation],
    metadata: dict[str, Any],
    *,
    notes: Sequence[str] = (),  # Markdown: how it was made, origin of data and weights
    picture: bool = False,
) -> str:
    """The model card of a run, with the verdict that is stored with it.

    `results` are named by what was evaluated; `metadata` is for the card's header.
    """
    model, stored = run.model, stored_verdict(run)
    head = ModelCardData(library_name="aib", pipeline_tag="image-classification", **metadata)
    backbone = ""
    if needs_backbone(model.recipe):
        backbone = model.recipe.get("backbone") or "my_module:build"
    return _templates.get_template("card.md").render(
        head=head.to_yaml(),
        title=repo.rpartition("/")[2],
        repo=repo,
        model=run.name,
        num_classes=model.num_classes,
        size=model.preprocessing.image_size,
        class_names=model.preprocessing.class_names,
        backbone=backbone,
        data=data,
        verdict=stored.verdict.name if stored else "",
        reasons=without_folders(f"{stored.verdict.text} {stored.line}") if stored else "",
        trust=TRUST.get(stored.verdict.name, NO_TRUST) if stored else NO_TRUST,
        rows=_rows(results),
        notes=notes,
        picture=PICTURE if picture else "",
    )


def _rows(results: dict[str, Evaluation]) -> list[list[str]]:
    """The table of results, with a heading if there are any."""
    agree = any(e.agreement is not None for e in results.values())
    shown = ("top1_error", *(("agreement",) if agree else ()), "calibration_error")
    headings = [METRICS[metric].heading for metric in shown]
    rows = [["data", "images", *headings, "samples"]]
    for name, e in results.items():
        rows.append([name, f"{e.images:,}", *(metric_texts(e)[h] for h in headings), e.samples])
    return rows if results else []


def plain(text: str) -> str:
    """Escape text so that Markdown shows it as it is, on one line."""
    return re.sub(r"[\\`*<>\[\]&~|#]|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(text.split()))


def code(text: str) -> str:
    """Return text as code, on one line, between more backticks than it holds in a row."""
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


_templates = Environment(
    loader=PackageLoader("aib.report"),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_templates.filters |= {"plain": plain, "code": code}
