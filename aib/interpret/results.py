"""The results of a study, as interpret.json holds them: written once, read back once."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from aib.errors import AibError
from aib.files import finite
from aib.interpret.metrics.bootstrap import Estimate, Flat, number_or_none
from aib.interpret.metrics.encoding import Encoding
from aib.interpret.metrics.reliance import Drop, Reliance
from aib.interpret.metrics.sanity import LayerChange
from aib.interpret.verdict import Verdict, judge

SCHEMA = 2  # 1: post-hoc maps attributed log-probabilities in profile paper


class FlatResults:
    """Estimates are in the file as NAME, NAME_low, ...; those by threshold as NAME_0.9, ..."""

    @classmethod
    def from_dict(cls, values: Flat) -> Self:
        """Read the fields that are there."""
        found: dict[str, Any] = {}
        for one in fields(cls):  # type: ignore[arg-type]
            if one.type == dict[float, Estimate]:
                found[one.name] = _by_threshold(values, f"{one.name}_")
            elif one.name in values:
                value = values[one.name]
                is_estimate = one.type in (Estimate, Estimate | None)
                plain = value if isinstance(value, list) else number_or_none(value)
                found[one.name] = Estimate.read(values, one.name) if is_estimate else plain
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; what is None is left out."""
        flat: dict[str, Any] = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            items = {"": value}
            if isinstance(value, dict):
                items = {f"_{threshold:g}": item for threshold, item in value.items()}
            for end, item in items.items():
                if isinstance(item, Estimate):
                    flat |= item.flat(one.name + end)
                elif item is not None:
                    flat[one.name + end] = item
        return flat


@dataclass(frozen=True)
class Stability(FlatResults):
    """What one modification did. Percentages; a model without maps has the first two only."""

    accuracy: float
    prediction_consistent: Estimate
    score: dict[float, Estimate] = field(default_factory=dict)  # by threshold of the cosine
    centred: dict[float, Estimate] = field(default_factory=dict)  # of the centred cosine
    centred_mean: Estimate | None = None
    centred_undefined: float | None = None
    contrast: float | None = None
    contrast_modified: float | None = None
    flat: float | None = None
    flat_modified: float | None = None
    images: float | None = None


@dataclass(frozen=True)
class Located(FlatResults):
    """One kind of map against the masks: shares from 0 to 1."""

    images: float
    pointing: Estimate
    energy: Estimate
    auroc: Estimate


@dataclass(frozen=True)
class Faithfulness(FlatResults):
    """Areas under the deletion and insertion curves of one kind of map, 0 to 1."""

    deletion: Estimate
    insertion: Estimate
    deletion_curve: list[float] | None = None
    insertion_curve: list[float] | None = None
    completeness_gap: float | None = None  # of Integrated Gradients


@dataclass(frozen=True)
class Information:
    """Means over the images; None for what the model does not have."""

    kl_bits: float | None = None
    entropy_bits: float | None = None
    perplexity: float | None = None
    energy_passed: float | None = None
    contrast: float | None = None
    flat_maps: float | None = None
    anchors: list[float] | None = None
    anchor_shares: list[float] | None = None


@dataclass(frozen=True)
class OwnLocalisation:
    """The model's own maps against the masks, means over all images."""

    pointing: float | None = None
    energy_inside: float | None = None
    auroc: float | None = None


@dataclass(frozen=True)
class ClassMetrics:
    """Means over the images of one class."""

    name: str
    images: int
    means: Mapping[str, float | None]  # by metric


@dataclass(frozen=True)
class Study:
    """How far a model's maps can be trusted: the content of interpret.json."""

    model: str
    images: int
    accuracy: float  # percent
    stability: dict[str, Stability]  # by modification
    reliance: Reliance | str  # or why there is none
    information: Information
    encoding: Encoding | None = None  # not in older files
    paper: dict[str, float] = field(default_factory=dict)  # the paper's scores, by modification
    own_localisation: OwnLocalisation = OwnLocalisation()
    subset_images: int = 0  # of localisation and faithfulness
    gradcam_layer: str | None = None
    localisation: dict[str, Located] = field(default_factory=dict)  # by kind of map
    faithfulness: dict[str, Faithfulness] = field(default_factory=dict)
    randomised_layers: tuple[LayerChange, ...] = ()
    classes: tuple[ClassMetrics, ...] = ()
    notes: tuple[str, ...] = ()
    # --- where it comes from
    schema: int = SCHEMA
    run: str | None = None
    profile: str | None = None
    papers_form: bool = False  # built as in the paper
    weights_sha256: str | None = None
    data: str | None = None
    split: str | None = None
    of_images: int | None = None  # that the data set has
    seed: int = 0
    class_names: tuple[str, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)
    posthoc_note: str | None = None  # what the post-hoc maps of an older study attribute

    @property
    def verdict(self) -> Verdict | None:
        """What the map is worth, by what was measured; None where nothing could be replaced."""
        if not isinstance(self.reliance, Reliance):
            return None
        return judge(self.reliance, self.encoding)

    @property
    def verdict_text(self) -> str:
        """The verdict in sentences, or why there is none."""
        return self.verdict.text if self.verdict else str(self.reliance)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: interpret.json."""
        verdict = self.verdict
        reliance = {"verdict": verdict.name if verdict else None, "words": self.verdict_text}
        if isinstance(self.reliance, Reliance):
            reliance = asdict(self.reliance) | reliance
        own = {k: v for k, v in asdict(self.own_localisation).items() if v is not None}
        changed = {
            "stability": {name: s.to_dict() for name, s in self.stability.items()},
            "localisation_own_all_images": own,
            "localisation": {name: s.to_dict() for name, s in self.localisation.items()},
            "faithfulness": {name: s.to_dict() for name, s in self.faithfulness.items()},
            "verdict": asdict(verdict) if verdict else None,
            "reliance": reliance,
            "encoding": asdict(self.encoding) if self.encoding else None,
            "randomised_layers": [asdict(change) for change in self.randomised_layers],
            "information": asdict(self.information),
            "classes": [{"class": c.name, "images": c.images, **c.means} for c in self.classes],
        }
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("own_localisation", *(() if self.posthoc_note else ("posthoc_note",))):
            del plain[name]
        return finite(plain | changed)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Study":
        """The inverse of `to_dict`, also for schema 1 and for the excerpts in results/*.json."""
        try:
            return cls(
                model=str(values["model"]),
                images=int(values["images"]),
                accuracy=float(values["accuracy"]),
                stability={k: Stability.from_dict(v) for k, v in values["stability"].items()},
                reliance=_reliance(values["reliance"]),
                information=_known(Information, values["information"]),
                encoding=Encoding.from_dict(found) if (found := values.get("encoding")) else None,
                paper={k: float(v) for k, v in values["paper"].items()},
                own_localisation=_known(
                    OwnLocalisation, values.get("localisation_own_all_images", {})
                ),
                subset_images=int(values["subset_images"]),
                gradcam_layer=values.get("gradcam_layer"),
                localisation={k: Located.from_dict(v) for k, v in values["localisation"].items()},
                faithfulness={
                    k: Faithfulness.from_dict(v) for k, v in values["faithfulness"].items()
                },
                randomised_layers=tuple(LayerChange(**v) for v in values["randomised_layers"]),
                classes=tuple(_class(row) for row in values.get("classes", ())),
                notes=tuple(values["notes"]),
                **{name: values[name] for name in _ORIGIN if name in values},
                class_names=tuple(values.get("class_names", ())),
            )
        except KeyError as error:
            raise AibError(f"the results of a study need {error}") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise AibError(
                f"the results of a study hold a value of a wrong type: {error}"
            ) from error


_ORIGIN = (
    "schema", "run", "profile", "papers_form", "weights_sha256", "data", "split", "of_images",
    "seed", "environment", "posthoc_note",
)  # fmt: skip


def _by_threshold(values: Flat, prefix: str) -> dict[float, Estimate]:
    """The estimates named PREFIX0.9 and the like, in rising order of the threshold."""
    ends = (name.removeprefix(prefix) for name in values if name.startswith(prefix))
    thresholds = sorted(float(end) for end in ends if end.replace(".", "", 1).isdigit())
    return {tau: Estimate.read(values, f"{prefix}{tau:g}") for tau in thresholds}


def _known(cls: Any, values: Mapping[str, Any]) -> Any:
    """A dataclass of optional values from those of the fields that are there."""
    found = {one.name: values.get(one.name) for one in fields(cls)}
    return cls(**{k: v if isinstance(v, list) else number_or_none(v) for k, v in found.items()})


def _reliance(values: Mapping[str, Any]) -> Reliance | str:
    if values["verdict"] is None:
        return str(values["words"])
    return Reliance(
        images=int(values["images"]),
        accuracy=float(values["accuracy"]),
        replaced={name: Drop(**drop) for name, drop in values["replaced"].items()},
        harm=float(values["harm"]),
        chance=float(values.get("chance", 0.0)),  # not in older files
        masked=bool(values.get("masked", False)),
    )


def _class(row: Mapping[str, Any]) -> ClassMetrics:
    means = {k: number_or_none(v) for k, v in row.items() if k not in ("class", "images")}
    return ClassMetrics(str(row["class"]), int(row["images"]), means)
