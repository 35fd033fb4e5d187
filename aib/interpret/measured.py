"""What each measure of one model's maps finds: plain values, as interpret.json holds them."""

from dataclasses import dataclass, field

from aib.evaluation.intervals import UNDEFINED, Estimate

SWAPS = ("same_class", "other_class")
# A drop of accuracy below one point counts as no harm: a choice, named in every verdict.
HARM = 0.01
ROOM = 5  # accuracy above chance, in multiples of the harm, below which there is nothing to lose
KEPT = 0.3  # of the pixels: the share of the evaluator's curve that the verdict reads
# The verdict's rules (`cleared`, `encoded`).
MARGIN = 0.05  # above chance, that the map may be followed
FOLLOWED = 0.6  # of the second control above chance, that follow the pixels, at least
KEEPS = 0.5  # of the decisions above chance, that each of the two controls keeps, at least


@dataclass(frozen=True)
class Drop:
    """Accuracy with the model's own maps minus that with the replaced ones, with its interval."""

    accuracy: float  # with the replaced maps
    drop: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """In percentage points, with the interval."""
        return f"{points(self.drop)} ({points(self.low)} to {points(self.high)})"


@dataclass(frozen=True)
class Reliance:
    """Accuracy with the maps replaced (shares, 0 to 1)."""

    images: int
    accuracy: float  # with the model's own maps
    # By their mean, shuffled in space, by another image's; of a masked model the last alone.
    replaced: dict[str, Drop]
    harm: float  # the least drop that counts
    chance: float  # accuracy of guessing the most frequent class
    masked: bool = False  # the model masks pixels, and was trained with its own masks only


def points(share: float) -> str:
    """Percentage points, to the hundredth; a zero has no sign."""
    return f"{round(100 * share, 2) + 0.0:.2f}"


@dataclass(frozen=True)
class Encoding:
    """What the map says about the class (shares, 0 to 1)."""

    swaps: dict[str, Drop]  # map of an image of the same, of another predicted class; may lack one
    left_out: dict[str, int]  # images that have no such partner
    follows: Estimate  # under a map of another class: the prediction is the class of that map
    follows_chance: float
    blank: Estimate  # accuracy with a blank image under the image's own map
    probe: dict[str, Estimate]  # accuracy of a small CNN that sees: map, mask, centre
    probe_chance: float  # of naming the most frequent class
    probe_images: int  # scored
    variation: float  # mean absolute difference between an image's map and another image's

    @property
    def reference(self) -> str:
        """What the probe on the map has to beat: silhouettes where there are masks."""
        return "mask" if "mask" in self.probe else "centre"


@dataclass(frozen=True)
class Followed:
    """What the decisions follow in one form of the transplant: shares of its pairs of images.

    With too few pairs nothing else was measured.
    """

    pairs: int
    skipped: int  # images without a box, or with a scale out of range
    pixels: Estimate = UNDEFINED  # B's prediction
    map: Estimate = UNDEFINED  # A's prediction
    chance: Estimate = UNDEFINED  # that of an unrelated image of another class than B
    own_map: Estimate = UNDEFINED  # first control, not of objects cut out: B under its own map
    foreign_map: Estimate = UNDEFINED  # second control: B under C's map

    @property
    def measured(self) -> bool:
        """Whether there were enough pairs."""
        return self.pixels.value is not None

    @property
    def above_chance(self) -> bool:
        """Whether the map is followed more often than chance allows.

        Of two classes, the one that is not B's is A's, so that chance is a half at most.
        """
        return (self.map.low or 0.0) > min(self.chance.value or 0.0, 0.5) + MARGIN

    @property
    def not_the_pixels(self) -> bool:
        """Whether another class's map costs half of the decisions or more."""
        return (self.pixels.value or 0.0) <= (self.foreign_map.value or 0.0) / 2


@dataclass(frozen=True)
class Transplant:
    """How often the decision follows the pixels, and how often the map."""

    boxes: Followed  # of the maps
    objects: Followed | None = None  # the exact form, with masks of the objects

    @property
    def forms(self) -> dict[str, Followed]:
        """By name, the forms that were measured."""
        forms = {"boxes of the maps": self.boxes, "objects cut out": self.objects}
        return {name: form for name, form in forms.items() if form and form.measured}

    @property
    def cleared(self) -> bool:
        """Whether the map hands over no class: no form follows it more often than by chance.

        And each step keeps its part of what the one before has above chance: the resampling, a
        foreign map of the same class, and one of another class.
        """
        found = self.boxes
        chance = found.chance.value or 0.0
        steps = (found.own_map, found.foreign_map, found.pixels)
        own, foreign, pixels = ((one.value or 0.0) - chance for one in steps)
        return (
            found.measured
            and found.pairs >= found.skipped
            and not any(one.above_chance for one in self.forms.values())
            and own >= KEEPS * (1 - chance)
            and foreign >= KEEPS * own
            and pixels >= FOLLOWED * foreign
        )

    @property
    def encoded(self) -> Followed | None:
        """The form in which the decision follows the map instead of the pixels, if any does."""
        followed = (one for one in self.forms.values() if one.above_chance and one.not_the_pixels)
        return next(followed, None)


@dataclass(frozen=True)
class Backgrounds:
    """Errors with the object on other backgrounds, in percent."""

    images: int
    without: int  # images without a known object, left out
    chance: float  # accuracy of naming the most frequent class
    own: Estimate  # the image as it is
    filled: Estimate  # its own background, filled where the object was
    other: Estimate  # that of an image of another class
    noise: Estimate
    alone: Estimate  # accuracy on the filled background without the object
    lost: Estimate  # other - filled, paired by image


@dataclass(frozen=True)
class MaskUse:
    """What the mask of a masked model lets through, in percent."""

    images: int
    closed: float  # pixels with m = 0 exactly
    open: float  # pixels with m = 1
    area: float  # mean of m
    bits: float  # per image, at most
    accuracy: float  # with the model's mask
    without_faint: Estimate  # points of accuracy lost with m < 0.1 set to 0
    rounded: Estimate  # the same with m rounded to 0 or 1
    shifted: Estimate  # the map moved by one cell
    blurred: Estimate  # the map averaged over 3 x 3 cells
    faint_bits: float | None = None  # bits through pixels with m < 0.5; None without any bits


@dataclass(frozen=True)
class LayerChange:
    """Similarity of the map to the original one, mean over images, once `layer` is random."""

    layer: str
    # None where no image defines it, as where all maps became NaN
    cosine: float | None  # of the min-max scaled maps
    pearson: float | None  # the centred cosine
    flat: int  # images whose map is flat before or after: pearson leaves them out


@dataclass(frozen=True)
class Stability:
    """What one modification did. Percentages; a model without maps has the first two only."""

    accuracy: float
    prediction_consistent: Estimate
    score: dict[float, Estimate] = field(default_factory=dict)  # by threshold of the cosine
    centred: dict[float, Estimate] = field(default_factory=dict)  # of the centred cosine
    centred_mean: Estimate | None = None
    centred_undefined: int | None = None
    contrast: float | None = None
    contrast_modified: float | None = None
    flat: int | None = None
    flat_modified: int | None = None
    images: int | None = None


@dataclass(frozen=True)
class Located:
    """One kind of map against the masks: shares from 0 to 1."""

    images: int
    pointing: Estimate
    energy: Estimate
    auroc: Estimate
    max_box_acc: Estimate | None = None  # MaxBoxAccV2
    max_box_acc_at: dict[float, Estimate] = field(default_factory=dict)  # by IoU
    pxap: Estimate | None = None  # this and those below need masks; boxes are not enough
    mask_iou: Estimate | None = None
    max_f: Estimate | None = None
    mae: Estimate | None = None


@dataclass(frozen=True)
class Faithfulness:
    """Areas under the deletion, insertion and ROAD curves of one kind of map, 0 to 1."""

    deletion: Estimate
    insertion: Estimate
    road_morf: Estimate | None = None  # most relevant pixels imputed first
    road_lerf: Estimate | None = None  # least relevant first


@dataclass(frozen=True)
class KeptCurve:
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

    @property
    def weakness(self) -> str | None:
        """Why it cannot judge maps; None if it can."""
        if self.chance is None or self.accuracy - self.chance >= 100 * ROOM * HARM:
            return None
        right = f"it gets {self.accuracy:.1f}% of the whole images right"
        return f"{right}, and guessing would get {self.chance:.1f}%"


@dataclass(frozen=True)
class Information:
    """Means over the images; None for what the model does not have."""

    kl_bits: float | None = None
    entropy_bits: float | None = None
    perplexity: float | None = None
    nearly_closed: float | None = None  # masks that keep less than 2% of the pixels, a share
    contrast: float | None = None
    flat_maps: float | None = None
    anchors: list[float] | None = None  # rising
    anchor_shares: list[float] | None = None  # of all positions, in the same order
