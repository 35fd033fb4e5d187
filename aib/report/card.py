"""The model card of the Hugging Face Hub: what is known of a model, and what is not."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from huggingface_hub import ModelCardData

from aib.models.classifier import Classifier, model_name, needs_backbone
from aib.system.files import as_text

CARD, PICTURE = "README.md", "maps.png"
UNMEASURED = "Not known: it was not measured (`aib interpret`)."
TRUST = {
    "faithful": "The map may be shown as the evidence that the decision rests on.",
    "used": "The map shows where the decision looks; that this is evidence was not shown.",
}
NO_TRUST = "Do not show the map as an explanation of a decision."


@dataclass(frozen=True)
class Card:
    """The contents of a card; an empty field is not known, and the card says so."""

    name: str  # of the model or its network
    num_classes: int
    image_size: int
    class_names: Sequence[str] = ()
    repo: str = "owner/name"
    data: str = ""  # that it was trained on
    verdict: str = ""  # its name
    reasons: str = ""  # the verdict in sentences
    rows: Sequence[Sequence[str]] = ()  # of the table of results
    notes: Sequence[str] = ()  # Markdown: how it was made, origin of data and weights
    backbone: str = ""  # the author's function that makes the network, where one is needed
    picture: bool = False  # whether there is a picture of maps
    metadata: dict[str, Any] = field(default_factory=dict)  # more of the card's header

    def __str__(self) -> str:
        head = ModelCardData(
            library_name="aib", pipeline_tag="image-classification", **self.metadata
        )
        side = self.image_size
        picture = f"\n![Images and their maps]({PICTURE})\n" if self.picture else ""
        notes = "".join(f"- {note}\n" for note in self.notes)
        notes = f"\n## How it was made\n\n{notes}" if notes else ""
        return f"""---
{head.to_yaml()}
---
# {plain(self.repo.rpartition("/")[2])}

{code(self.name)}, an image classifier of {self.num_classes} classes for {side} x {side} pixels,
made with aib: attention with an information bottleneck.

{self._use()}

## Can the map be trusted?

{f"**{self.verdict}**: {plain(self.reasons)}" if self.verdict else UNMEASURED}
{picture}
## Results

{self._results()}

## Intended use

- Classifies pictures like those that it was trained on: {plain(self.data) or "not known"}.
- Classes: {", ".join(map(plain, self.class_names)) or "their names are not known"}.
- Any picture gets one of these classes, also one that shows none of them.
- A picture is resized to {side} x {side} pixels; what is small in it is lost.
- {TRUST.get(self.verdict, NO_TRUST)}
{notes}"""

    def _use(self) -> str:
        if "/" not in self.repo:  # a model of the package
            return f"On the command line: {code(f'aib explain photo.jpg --run {self.repo}')}."
        argument, option, needed = "", "", ""
        if self.backbone:
            argument, option = f', backbone="{self.backbone}"', f" --backbone {self.backbone}"
            needed = (
                "\n\nThe code of the network is not part of the model: `backbone` names a "
                "function, as `module:function`, that returns it."
            )
        return f"""```python
import aib

model = aib.from_pretrained("{self.repo}"{argument})
aib.explain(model, "photo.jpg").save("explanations")
```

On the command line: `aib explain photo.jpg --run hf:{self.repo}{option}`.{needed}"""

    def _results(self) -> str:
        if not self.rows:
            return "Not known: the model comes without an evaluation (`aib eval`)."
        head = (
            "data",
            "images",
            "top-1 error, % (95% interval)",
            "calibration error, %",
            "samples",
        )
        lines = [head, ["---"] * len(head), *([plain(cell) for cell in row] for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def card_of(model: Classifier, repo: str, **known: Any) -> Card:
    """The card of a model; `known` are fields that the model itself does not know."""
    backbone = ""
    if model.recipe and needs_backbone(model.recipe):
        backbone = str(model.recipe.get("backbone") or "my_module:build")
    return Card(
        name=model_name(model),
        num_classes=model.num_classes,
        image_size=model.preprocessing.image_size,
        class_names=model.preprocessing.class_names,
        repo=repo,
        backbone=backbone,
        **known,
    )


def plain(text: str) -> str:
    """Escape text so that Markdown shows it as it is, on one line."""
    return re.sub(r"[\\`*<>\[\]&~|#]|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(as_text(text).split()))


def code(text: str) -> str:
    """Return text as code, on one line, between more backticks than it holds in a row."""
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"
