"""The results of a study, as interpret.json holds them: written once, read back once."""

from dataclasses import asdict, dataclass, field
from typing import Any

from aib.interpret.measured import (
    Backgrounds,
    Encoding,
    EvaluatorResults,
    Faithfulness,
    Information,
    LayerChange,
    Located,
    MaskUse,
    Reliance,
    Stability,
    Transplant,
)
from aib.interpret.verdict import Verdict, judge
from aib.system.files import finite

SCHEMA = 4  # of interpret.json; others are an error
NO_MAP_TO_REPLACE = "no verdict: no map was replaced (the model has no single one, or --only)"


@dataclass(frozen=True)
class Study:
    """How far a model's maps can be trusted: the content of interpret.json."""

    model: str
    images: int
    accuracy: float  # percent
    stability: dict[str, Stability] = field(default_factory=dict)  # by modification
    reliance: Reliance | None = None  # of models with a single map that can be replaced
    information: Information = field(default_factory=Information)
    encoding: Encoding | None = None
    transplant: Transplant | None = None
    paper: dict[str, float] = field(default_factory=dict)  # the paper's scores, by modification
    # The model's own maps against the masks, means over all images.
    localisation_own_all_images: dict[str, float] = field(default_factory=dict)
    subset_images: int = 0  # of localisation and faithfulness
    gradcam_layer: str | None = None
    localisation: dict[str, Located] = field(default_factory=dict)  # by kind of map
    faithfulness: dict[str, Faithfulness] = field(default_factory=dict)
    evaluator: EvaluatorResults | None = None
    backgrounds: Backgrounds | None = None
    randomised_layers: tuple[LayerChange, ...] = ()
    mask: MaskUse | None = None  # masked models
    notes: tuple[str, ...] = ()
    # --- where it comes from
    schema: int = SCHEMA
    run: str | None = None
    profile: str | None = None
    weights_sha256: str | None = None
    data: str | None = None
    split: str | None = None
    of_images: int | None = None  # that the data set has
    seed: int = 0
    seconds: float | None = None  # that it took, without opening the run
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def has_maps(self) -> bool:
        """Whether the model has maps of its own."""
        return self.information.contrast is not None

    @property
    def verdict(self) -> Verdict | None:
        """What the map is worth, by what was measured; None where nothing could be replaced."""
        if self.reliance is None:
            return None
        return judge(self.reliance, self.encoding, self.transplant, self.evaluator)

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
        return self.verdict.text if self.verdict else NO_MAP_TO_REPLACE

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: interpret.json, with the verdict for other readers."""
        verdict = None if self.verdict is None else asdict(self.verdict)
        return finite(asdict(self) | {"verdict": verdict, "verdict_text": self.verdict_text})
