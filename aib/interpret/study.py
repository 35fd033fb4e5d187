"""How far can this model's maps be trusted? Every question of this package, asked of one model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aib.classifier import Classifier, evaluating
from aib.errors import AibError, missing_extra
from aib.files import finite
from aib.interpret.comparison import Comparison, compare, no_masks, sources
from aib.interpret.maps import own_maps
from aib.interpret.metrics.perturb import Modification, modifications
from aib.interpret.metrics.reliance import Reliance, map_reliance
from aib.interpret.metrics.sanity import LayerChange, randomise_layers
from aib.interpret.per_image import Survey, Tick, by_class, silent, survey
from aib.interpret.pixels import Feed
from aib.interpret.posthoc import gradcam_layer, has_captum
from aib.paper import paper_score

SCHEMA = 2  # 1: post-hoc maps attributed log-probabilities in profile paper
NO_MAP_TO_REPLACE = "not measured: the model has no single attention map to replace"
RANDOMISED = 64  # images of the layer randomisation at most: it copies and runs the model often


@dataclass(frozen=True)
class Plan:
    """What is asked, the same for every model that is compared."""

    modifications: Mapping[str, Modification] = field(default_factory=lambda: modifications())
    foreign: Tensor | None = None  # uint8 [M,3,h,w]
    subset: int = 256  # images of the expensive parts
    seed: int = 0

    def __post_init__(self) -> None:
        if self.subset < 2:
            raise AibError(f"the subset needs at least 2 images, not {self.subset}")


@dataclass(frozen=True)
class Study:
    """The answers. Shares are in percent where a name says so in its table, else 0 to 1."""

    model: str
    survey: Survey
    comparison: Comparison | None
    reliance: Reliance | str  # or the sentence that says why there is none
    randomised: list[LayerChange]
    gradcam_layer: str | None
    notes: tuple[str, ...]
    facts: dict[str, Any]

    def with_notes(self, notes: Sequence[str]) -> "Study":
        """The same with more to say."""
        return replace(self, notes=(*self.notes, *notes))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: interpret.json."""
        s = self.survey
        reliance: dict[str, Any] = {"verdict": None, "words": self.reliance}
        if isinstance(self.reliance, Reliance):
            reliance = asdict(self.reliance) | {"words": self.reliance.words}
        return finite(
            {
                "schema": SCHEMA,
                "model": self.model,
                **self.facts,
                "images": s.images,
                "accuracy": 100 * (s.mean("correct") or 0.0),
                "stability": s.stability,
                "paper": self.paper(),
                "localisation_own_all_images": self.located(),
                "subset_images": self.comparison.images if self.comparison else 0,
                "gradcam_layer": self.gradcam_layer,
                "localisation": self.comparison.localisation if self.comparison else {},
                "faithfulness": self.comparison.faithfulness if self.comparison else {},
                "reliance": reliance,
                "randomised_layers": [asdict(change) for change in self.randomised],
                "information": self.information(),
                "classes": by_class(s.columns, self.facts.get("class_names", ())),
                "notes": list(self.notes),
            }
        )

    def information(self) -> dict[str, Any]:
        """Bits and energy, means over the images; None for what the model does not have."""
        s = self.survey
        return {
            "kl_bits": s.mean("kl_bits"),
            "entropy_bits": s.mean("entropy_bits"),
            "perplexity": s.perplexity,
            "energy_passed": s.mean("energy_passed"),
            "contrast": s.mean("contrast"),
            "flat_maps": s.mean("flat"),
            "anchors": s.anchors,
            "anchor_shares": s.anchor_shares,
        }

    def located(self) -> dict[str, float | None]:
        """Our own maps against the masks, over all images."""
        names = ("pointing", "energy_inside", "auroc")
        return {n: self.survey.mean(n) for n in names if n in self.survey.columns}

    def paper(self) -> dict[str, float]:
        """The paper's Table 2 for this model and data, where it has an entry."""
        if not self.facts.get("papers_form"):
            return {}
        data = str(self.facts.get("data", "")).partition(":")[0]
        found = {name: paper_score(self.model, data, name) for name in self.survey.stability}
        return {name: score for name, score in found.items() if score is not None}


def study(
    model: Classifier,
    feed: Feed,
    plan: Plan,
    *,
    name: str = "model",
    facts: dict[str, Any] | None = None,
    expensive: bool = True,
    tick: Tick = silent,
) -> Study:
    """Everything about one model on the images of `feed`. `expensive` adds the subset's parts."""
    with evaluating(model):
        walked = survey(
            model, feed, plan.modifications, foreign=plan.foreign, seed=plan.seed, tick=tick
        )
        has_maps = "contrast" in walked.columns
        few = feed.few(plan.subset, plan.seed)
        located = no_masks(feed.data)
        notes = [located] if located else []
        comparison, layer = None, None
        if expensive:
            if has_captum():
                layer = gradcam_layer(model, _first(model, few, 1))
            else:
                why = "Grad-CAM and Integrated Gradients need captum"
                notes.append(str(missing_extra("posthoc", why)))
            comparison = compare(
                model, few, sources(has_maps), masks=located is None, seed=plan.seed, tick=tick
            )
        changes = []
        if expensive and has_maps:
            x = _first(model, few, RANDOMISED)
            changes = randomise_layers(model, own_maps, x, seed=plan.seed)
        reliance = rely(model, feed, plan.seed, tick)
    return Study(
        model=name,
        survey=walked,
        comparison=comparison,
        reliance=reliance,
        randomised=changes,
        gradcam_layer=layer,
        notes=tuple(notes),
        facts=facts or {},
    )


def rely(model: Classifier, feed: Feed, seed: int, tick: Tick = silent) -> Reliance | str:
    """Does the decision use the map? Or why the question makes no sense here."""
    if not model.takes_map:
        return NO_MAP_TO_REPLACE

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for batch in feed:
            yield model.preprocessing.normalise(batch.images), batch.labels
            tick("replaced maps", len(batch.images))

    def predict(x: Tensor, attention_map: Tensor | None) -> Tensor:
        return model(x, deterministic=True, attention_map=attention_map).logits

    return map_reliance(predict, partial(own_maps, model), batches(), seed=seed)


def _first(model: Classifier, feed: Feed, count: int) -> Tensor:
    """Some normalised images [n,3,S,S] of a feed."""
    parts, have = [], 0
    for batch in feed:
        parts.append(batch.images[: count - have])
        have += len(parts[-1])
        if have >= count:
            break
    return model.preprocessing.normalise(torch.cat(parts))
