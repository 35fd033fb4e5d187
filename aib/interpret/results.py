"""The results of a study, as interpret.json holds them: written once, read back once."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

from aib.config.validation import parse_json
from aib.errors import AibError
from aib.evaluation.intervals import Estimate, FlatResults
from aib.interpret.measured import HARM, ROOM, Encoding, LayerChange, MaskUse, Reliance, Transplant
from aib.interpret.verdict import Judged, Verdict, judge
from aib.system.files import finite

KEPT = 0.3  # of the pixels: the share that the verdict looks at
SCHEMA = 3  # of interpret.json; others are an error
NO_MAP_TO_REPLACE = "not measured: the model has no single attention map that could be replaced"


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
    max_box_acc: Estimate | None = None  # MaxBoxAccV2
    max_box_acc_at: dict[float, Estimate] = field(default_factory=dict)  # by IoU
    pxap: Estimate | None = None  # this and the next need masks; boxes are not enough
    mask_iou: Estimate | None = None


@dataclass(frozen=True)
class Faithfulness(FlatResults):
    """Areas under the deletion, insertion and ROAD curves of one kind of map, 0 to 1."""

    deletion: Estimate
    insertion: Estimate
    deletion_curve: list[float] | None = None
    insertion_curve: list[float] | None = None
    road_morf: Estimate | None = None  # most relevant pixels imputed first
    road_lerf: Estimate | None = None  # least relevant first
    road_morf_curve: list[float] | None = None  # at road_fractions
    road_lerf_curve: list[float] | None = None
    road_fractions: list[float] | None = None


@dataclass(frozen=True)
class KeptCurve(FlatResults):
    """The evaluator's accuracy with the best pixels of one kind of map, in percent."""

    accuracy: dict[float, Estimate]  # by share of the pixels that are kept
    area: Estimate  # under the curve, divided by its width: a mean accuracy
    over_random: Estimate | None = None  # area minus that control's, points, paired by image
    over_centre: Estimate | None = None
    # Of the model's predictions that the evaluator gives for whole images, it gives so many from
    # the best pixels, in percent.
    kept: dict[float, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluatorResults:
    """What an evaluator decides from the pixels that each kind of map keeps."""

    run: str  # where the evaluator comes from
    accuracy: float  # with all pixels, in percent
    maps: dict[str, KeptCurve]  # by kind of map
    chance: float | None = None  # accuracy of guessing, in percent

    def weakness(self, images: int) -> str | None:
        """Why it cannot judge maps, measured on so many images; None if it can."""
        if self.chance is None or self.accuracy - self.chance >= 100 * ROOM * HARM:
            return None
        return (
            f"it gets {self.accuracy:.1f}% of {images:,} whole images right, and guessing would "
            f"get {self.chance:.1f}%"
        )


@dataclass(frozen=True)
class Information:
    """Means over the images; None for what the model does not have."""

    kl_bits: float | None = None
    entropy_bits: float | None = None
    perplexity: float | None = None
    energy_passed: float | None = None
    contrast: float | None = None
    flat_maps: float | None = None
    anchors: list[float] | None = None  # rising
    anchor_shares: list[float] | None = None  # of all positions, in the same order


@dataclass(frozen=True)
class ClassMetrics:
    """Means over the images of one class."""

    name: str
    images: int
    means: Mapping[str, float | None]  # by metric


@dataclass(frozen=True)
class OwnLocalisation:
    """The model's own maps against the masks, means over all images."""

    pointing: float | None = None
    energy_inside: float | None = None
    auroc: float | None = None


@dataclass(frozen=True)
class Study:
    """How far a model's maps can be trusted: the content of interpret.json."""

    model: str
    images: int
    accuracy: float  # percent
    stability: dict[str, Stability]  # by modification
    reliance: Reliance | str = NO_MAP_TO_REPLACE  # or why there is none
    information: Information = field(default_factory=Information)
    encoding: Encoding | None = None
    transplant: Transplant | None = None
    paper: dict[str, float] = field(default_factory=dict)  # the paper's scores, by modification
    own_localisation: OwnLocalisation = OwnLocalisation()
    subset_images: int = 0  # of localisation and faithfulness
    gradcam_layer: str | None = None
    localisation: dict[str, Located] = field(default_factory=dict)  # by kind of map
    faithfulness: dict[str, Faithfulness] = field(default_factory=dict)
    evaluator: EvaluatorResults | None = None
    randomised_layers: tuple[LayerChange, ...] = ()
    classes: tuple[ClassMetrics, ...] = ()
    mask: MaskUse | None = None  # masked models
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
    seconds: float | None = None  # that it took, without opening the run
    class_names: tuple[str, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict | None:
        """What the map is worth, by what was measured; None where nothing could be replaced."""
        if not isinstance(self.reliance, Reliance):
            return None
        judged, found = None, self.evaluator
        if found and (curve := found.maps.get("own")):
            judged = Judged(
                over_centre=curve.over_centre,
                over_random=curve.over_random,
                kept=curve.kept.get(KEPT),
                weakness=found.weakness(self.subset_images),
            )
        return judge(self.reliance, self.encoding, self.transplant, judged)

    def measured_on(self, part: str = "") -> str:
        """The images, with a remark on which `part` of the data they are, and how many of them
        the evaluator saw."""
        if self.split == "train":  # of a folder without splits too, whose images may be new ones
            text = f"{self.images:,} images of {self.data}{part}, split train"
        else:
            split = {"val": "held-out"}.get(self.split or "", self.split)
            text = f"{self.images:,} {split} images of {self.data}{part}"
        if self.evaluator is None or self.subset_images >= self.images:
            return text
        return f"{text}, by the evaluator on {self.subset_images:,} of them"

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
        found = {one.name: _plain(getattr(self, one.name)) for one in fields(self)}
        own = found.pop("own_localisation")
        found |= {
            "localisation_own_all_images": {k: v for k, v in own.items() if v is not None},
            "verdict": _plain(verdict),
            "reliance": reliance,
        }
        return finite(found)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Study":
        """The inverse of `to_dict`, also for the excerpts in results/*.json."""
        where = "the results of a study"
        if not isinstance(reliance := values.get("reliance"), dict):
            raise AibError(f"{where} need 'reliance'")
        if reliance.get("verdict") is None:
            reliance = str(reliance.get("words"))
        own = values.get("localisation_own_all_images", {})
        return parse_json(cls, {**values, "reliance": reliance, "own_localisation": own}, where)


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
