"""Settings of a training run: one dataclass, with the model's options nested in it.

The command line, its help, config.json and the presets are all made from it. The line below a
setting is its help text.
"""

import typing
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from aib.config.options import OPTION_NAMES, ModelOptions
from aib.config.validation import (
    Budget,
    Cache,
    Count,
    Fraction,
    NonNegative,
    NonNegativeInt,
    Positive,
    Precision,
    Rule,
    Seed,
    check_fields,
    parse_json,
    reject_unknown,
)
from aib.errors import AibError

RISING = Rule(
    "above 0 and above the one before",
    lambda epochs: list(epochs) == sorted(set(epochs)) and min(epochs, default=1) > 0,
)
Share = Annotated[float, Rule("above 0 and at most 1", lambda v: 0 < v <= 1)]


@dataclass(frozen=True)
class Settings:
    """Settings of a training run. The defaults are the paper's for VGG."""

    # --- what is trained, on what
    data: str = "shapes"
    """folder:PATH or a name."""
    root: str | None = None
    """Folder of the data set's official files."""
    model: str = "vgg_aib_qt"
    """A model's name, or timm:NAME."""
    options: ModelOptions = field(default_factory=ModelOptions)
    at: str | None = None
    """Layer of a network that gets the attention."""
    masked: bool = False
    """Mask a network's pixels, not its features."""
    pretrained: bool = False
    """Start from the library's pretrained weights."""
    evaluator: bool = False
    """Train the evaluator of `aib interpret`."""
    backbone: str | None = None
    """Your network, module:function."""
    init: str | None = None
    """Start from a run, a model, FAMILY:PATH (vgg16, lite0, lite2) or a network's own weights."""

    # --- loss
    beta: NonNegative = 0.01
    """Weight of the KL term, per nat."""
    lambda_q: NonNegative = 0.4
    """Weight of the quantisation term."""
    lambda_c: NonNegative = 0.1
    """Weight of the commitment term."""
    lambda_area: NonNegative = 5.0
    """Weight of a mask's area above its budget."""
    budget: Budget | None = None
    """Of the area: for the mean over images (default for photographs), or for each image."""
    beta_warmup: NonNegative = 0.0
    """Epochs over which beta rises from 0."""
    label_smoothing: Fraction = 0.0
    """Part of each label spread over all classes."""
    teacher: str | None = None
    """Learn from a classifier: lite2:PATH, timm:NAME, a run or model, or module:function."""
    distill: Share | None = None
    """Weight of the teacher beside labels (default: 0.5, without labels 1)."""

    # --- optimisation
    head_epochs: NonNegativeInt = 0
    """First train only the head, on cached features."""
    epochs: NonNegativeInt = 200
    """Passes over the training set."""
    batch_size: Count = 128
    """Images per update."""
    accumulate: Count = 1
    """Parts per batch and device, to save memory."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    """sgd or adamw."""
    lr: Positive = 0.1
    """Peak learning rate."""
    lr_backbone: Positive | None = None
    """Peak learning rate of pretrained layers."""
    momentum: Fraction = 0.9
    """Momentum of SGD."""
    weight_decay: NonNegative = 5e-4
    """Weight decay."""
    clip: Positive | None = None
    """Largest norm of the gradient."""
    schedule: Literal["steps", "cosine"] = "steps"
    """Learning rate over time: steps or cosine."""
    milestones: Annotated[tuple[int, ...], RISING] = (25, 50, 75, 100, 125, 150, 175)
    """Epochs where --lr falls."""
    gamma: Share = 0.5
    """Factor of the learning rate per milestone."""
    warmup: NonNegative = 0.0
    """Epochs over which --lr rises."""
    ema: Annotated[float, Rule("between 0 and 1", lambda v: 0 < v < 1)] | None = None
    """Decay of an average of the weights."""
    ema_batch_norm: NonNegativeInt = 0
    """Batches for the average's BatchNorm."""
    freeze: tuple[str, ...] = ()
    """Layers that are not trained."""
    freeze_norm: bool = False
    """Keep the statistics of pretrained BatchNorm."""

    # --- data
    holdout: Fraction = 0.0
    """Share of the training images to hold out."""
    augment: bool = True
    """Random crops and flips, and those below."""
    cutout: NonNegativeInt = 0
    """Side in pixels of a random blank square."""
    trivial_augment: bool = False
    """One random operation per image (TrivialAugment)."""
    alternate_flip: bool = False
    """Mirror images in every second epoch."""
    cache: Cache = "auto"
    """Where decoded images above 64 pixels stay."""
    workers: NonNegativeInt = 2
    """Processes that decode images."""

    # --- machine
    precision: Precision = "fp32"
    """fp32, bf16 or fp16; weights stay fp32."""
    channels_last: bool = False
    """Memory layout that suits tensor cores."""
    compile: bool = False
    """Use torch.compile for the step."""
    graphs: bool = False
    """Run steps as a CUDA graph, on one GPU."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto, cpu, cuda or mps."""
    devices: Count = 1
    """Devices of this machine; processes on a CPU."""
    nodes: Count = 1
    """Machines, started by torchrun or SLURM."""
    seed: Seed = 0
    """Seed of weights, order of the data and noise."""

    # --- record
    log_every: Count = 50
    """Steps between two rows of metrics."""
    checkpoint_every: NonNegative = 5.0
    """Minutes between checkpoints."""
    evaluate_every: Count = 1
    """Epochs between held-out evaluations."""
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """tensorboard, wandb or both."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.backbone is not None:
            if ":" not in self.backbone:  # without it the name would be that of a model of aib
                raise AibError(f"a backbone is written module:function, not {self.backbone!r}")
            object.__setattr__(self, "model", self.backbone)  # the name in every table
        for name in NETWORK if not self.trains_network else ():
            if getattr(self, name) not in (None, False):
                raise AibError(
                    f"{name} is for networks (timm:NAME, torchvision:NAME, --backbone), not for "
                    f"{self.model}"
                )
        if self.pretrained and self.init is not None:
            raise AibError("--init and --pretrained both name weights: leave one of them out")
        if self.graphs and (self.accumulate > 1 or self.precision == "fp16"):
            raise AibError(
                "graphs cannot record accumulated parts, nor fp16's loss scale: add --no-graphs"
            )
        if not self.epochs + self.head_epochs:
            raise AibError("epochs 0 trains nothing: add --head-epochs, for example 100")
        if self.head_epochs and self.teacher is not None:
            raise AibError("head_epochs trains on labels, not on a teacher: leave one of them out")
        if self.ema_batch_norm and self.ema is None:
            raise AibError("ema_batch_norm is for averaged weights: add --ema, for example 0.999")
        parts = self.devices * self.nodes * self.accumulate
        if self.batch_size % parts:
            raise AibError(
                f"batch_size {self.batch_size} cannot be shared out evenly over "
                f"{self.devices * self.nodes} devices x {self.accumulate} accumulated parts"
            )

    def updated(self, **changes: Any) -> "Settings":
        """A copy with these values, each the name of a setting or of a model option."""
        reject_unknown(changes, setting_types(), "no setting", "aib train --help")
        options = {name: value for name, value in changes.items() if name in OPTION_NAMES}
        others = {name: value for name, value in changes.items() if name not in options}
        return replace(self, options=replace(self.options, **options), **others)

    @property
    def trains_network(self) -> bool:
        """Whether `model` names a network, of a library or of the user's own: no model of aib."""
        return ":" in self.model

    def own_evaluation(self, names: Collection[str]) -> str | None:
        """Which of these names in evaluation.json is the run's own result, if any.

        On test images, also those of a later `aib eval` without options, before held-out images.
        """
        candidates = f"{self.data} test", f"{self.data} val"
        return next((name for name in candidates if name in names), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types in one flat object, the model's options beside the other settings."""
        values: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            values |= asdict(value) if f.name == "options" else {f.name: value}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    def recipe(self) -> dict[str, Any]:
        """What differs from the defaults, without what only says where and how it was run."""
        values, plain = self.to_dict(), Settings().to_dict()
        return {k: v for k, v in values.items() if v != plain[k] and k not in MACHINE}

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: Path) -> "Settings":
        """The inverse of `to_dict`. Wrong keys or values are an error that names the file.

        On the Hub a config has no settings of the machine.
        """
        if different := sorted((values.keys() ^ setting_types().keys()) - MACHINE):
            raise AibError(
                f"{where} is of another version of aib: its settings differ in {different[0]}"
            )
        options = {name: value for name, value in values.items() if name in OPTION_NAMES}
        read: Settings = parse_json(cls, values, where)
        return replace(read, options=parse_json(ModelOptions, options, where))


def setting_types() -> dict[str, Any]:
    """Types of all settings by name, the model's options among them."""
    types = typing.get_type_hints(Settings) | typing.get_type_hints(ModelOptions)
    del types["options"]
    return types


# Settings that only say where and how a run is done.
MACHINE = {
    "root", "workers", "graphs", "accelerator", "devices", "nodes", "log_every",
    "checkpoint_every", "evaluate_every", "loggers",
}  # fmt: skip
# Settings of networks, which models of aib do not have.
NETWORK = ("at", "masked", "pretrained")
# Settings that choose data and model: `fit` is given both.
CHOICES = {
    "data", "root", "holdout", "model", *OPTION_NAMES, *NETWORK, "evaluator", "backbone",
    "init",
}  # fmt: skip
