"""Settings of a training run: one dataclass, with the model's options nested in it.

The command line, its help, config.json and the presets are all made from it.
"""

import typing
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from aib.config.options import OPTION_NAMES, ModelOptions
from aib.config.validation import (
    Cache,
    Count,
    Fraction,
    Layout,
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


@dataclass(frozen=True)
class Settings:
    """Settings of a training run. The defaults are the paper's for VGG."""

    # --- what is trained, on what
    data: str = "shapes"
    """Data set: folder:PATH, hf:NAME, or a name that `aib data list` lists."""
    root: str | None = None
    """Folder that holds the data set's official files; the cache folder if not given."""
    model: str = "vgg_aib_qt"
    """Model name; `aib models` lists them. Also a network: timm:NAME or torchvision:NAME."""
    options: Annotated[ModelOptions, tyro.conf.arg(name="model")] = field(
        default_factory=ModelOptions
    )
    at: str | None = None
    """Layer of a network that attention is attached to; by default one with a stride of 16."""
    masked: bool = False
    """Of a network: mask its pixels (docs/method.md) instead of modulating its features."""
    layout: Layout | None = None
    """How a masked network's features lie, if their shape does not tell; tokens are [B,n,c]."""
    prefix_tokens: NonNegativeInt | None = None
    """Tokens before those of the grid, such as a class token."""
    token_grid: tuple[Count, Count] | None = None
    """Height and width of the grid that the tokens form, if it is not square."""
    pretrained: bool = False
    """Start a timm or torchvision network from its library's pretrained weights."""
    evaluator: bool = False
    """Train the evaluator for `aib interpret --evaluator`: the plain network on random masks."""
    backbone: str | None = None
    """A network of your own in place of --model: my_module:build, a function without arguments."""
    init: str | None = None
    """Start from a run, a saved or packaged model (pets_masked), or for VGG at 224 vgg16:PATH."""

    # --- loss
    beta: NonNegative = 0.01
    """Weight of the KL term: the penalty per nat in the latent."""
    lambda_q: NonNegative = 0.4
    """Weight of the quantisation term."""
    lambda_c: NonNegative = 0.1
    """Weight of the commitment term."""
    lambda_area: NonNegative = 5.0
    """Weight of the penalty on a masked model's area above its budget."""
    beta_warmup: NonNegative = 0.0
    """Epochs over which beta rises from 0 to its value."""
    label_smoothing: Fraction = 0.0
    """Part of each label that is moved to all classes alike."""

    # --- optimisation
    epochs: Count = 200
    """Passes over the training set."""
    batch_size: Count = 128
    """Images per update, over all devices and parts. An epoch drops an incomplete last batch."""
    accumulate: Count = 1
    """Parts that a device's share of the batch is split into, to save memory."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    """SGD with Nesterov momentum (plain momentum with profile released), or AdamW."""
    lr: Positive = 0.1
    """Peak learning rate."""
    lr_backbone: Positive | None = None
    """Peak learning rate of what --init vgg16:PATH or --pretrained loaded; other layers have lr."""
    momentum: Fraction = 0.9
    """Momentum of SGD."""
    weight_decay: NonNegative = 5e-4
    """On weights; never on norms, biases and anchors, but with profile released on everything."""
    clip: Positive | None = None
    """Largest gradient norm; larger gradients are scaled down to it."""
    schedule: Literal["steps", "cosine"] = "steps"
    """The learning rate after warm-up: times `gamma` at each milestone, or a cosine to zero."""
    milestones: Annotated[tuple[int, ...], RISING] = (25, 50, 75, 100, 125, 150, 175)
    """Epochs at which the learning rate falls."""
    gamma: Annotated[float, Rule("above 0 and at most 1", lambda v: 0 < v <= 1)] = 0.5
    """Factor of the learning rate at each milestone."""
    warmup: NonNegative = 0.0
    """Epochs over which the learning rate rises from 0."""
    ema: Annotated[float, Rule("between 0 and 1", lambda v: 0 < v < 1)] | None = None
    """Decay of a moving average of the weights; the average is then evaluated and saved."""
    ema_batch_norm: NonNegativeInt = 0
    """Batches that estimate the average's BatchNorm anew before evaluations; 0: it is averaged."""
    freeze: tuple[str, ...] = ()
    """Layers that are not trained, with all inside them; their BatchNorm stays as in evaluation."""
    revive_anchors: bool = False
    """Move anchors that were unused for an epoch next to the most used one."""

    # --- data
    holdout: Fraction = 0.0
    """Fraction of the training set held out to choose by: evaluated, and the test set is not."""
    augment: bool = True
    """Random crops, flips (unless that changes an image's class), and the five settings below."""
    cutout: NonNegativeInt = 0
    """Side in pixels of a blank square at a random position of each training image; 0 for none."""
    trivial_augment: bool = False
    """One random operation on each training image (TrivialAugment, wide)."""
    alternate_flip: bool = False
    """Mirror each image in every second epoch instead of at random; the first is random."""
    mixup: NonNegative = 0.0
    """alpha of mixup: two images and their labels are blended; 0 for none."""
    cutmix: NonNegative = 0.0
    """alpha of CutMix: a rectangle of another image is pasted; both: one of them per batch."""
    strict: bool = False
    """Stop at a damaged image file; otherwise it is reported and skipped."""
    cache: Cache = "auto"
    """Where decoded large images are kept: memory, disk, none; auto: the first with space."""
    workers: NonNegativeInt = 2
    """Processes that decode images above 64 pixels of which no decoded copy is kept."""

    # --- machine
    precision: Precision = "fp32"
    """Precision of the forward and backward pass; the weights stay fp32."""
    channels_last: bool = False
    """Memory layout that suits tensor cores."""
    compile: bool = False
    """torch.compile the step."""
    graphs: bool = False
    """Run training steps as a CUDA graph. For one GPU; no effect elsewhere."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Kind of device."""
    devices: Count = 1
    """Devices of this machine; without a GPU, processes."""
    oversubscribe: bool = False
    """Allow more processes than CPU cores, to try out a command for many GPUs."""
    nodes: Count = 1
    """Machines, started by torchrun or SLURM."""
    seed: Seed = 0
    """Random seed of the weights, the order of the data and the noise."""

    # --- record
    log_every: Count = 50
    """Steps between two logged rows; only then does training synchronise with the device."""
    checkpoint_every: NonNegative = 5.0
    """Minutes between checkpoints; one is written at the end of training in any case."""
    evaluate_every: Count = 1
    """Epochs between evaluations on the held-out images."""
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = field(default=())
    """Loggers that get the metrics besides metrics.jsonl."""

    def __post_init__(self) -> None:
        check_fields(self)
        if "holdout" in self.data:
            self._reject_holdout()
        if self.backbone is not None:
            if ":" not in self.backbone:  # without it the name would be that of a model of aib
                raise AibError(
                    "a backbone is written module:function, such as my_module:build, "
                    f"not {self.backbone!r}"
                )
            object.__setattr__(self, "model", self.backbone)  # the name in every table
        for name in ("at", "masked", "pretrained", "layout", "prefix_tokens", "token_grid"):
            value = getattr(self, name)  # 0 prefix tokens are a choice, too
            if not self.trains_network and value is not None and value is not False:
                raise AibError(
                    f"{name} is for networks (--model timm:NAME or torchvision:NAME, --backbone), "
                    f"and {self.model} is a model of aib: `aib models '*'` lists those, also the "
                    "masked ones"
                )
        if self.graphs and (self.accumulate > 1 or self.precision == "fp16"):
            raise AibError(
                "graphs cannot record accumulated parts, nor fp16's loss scale: add --no-graphs"
            )
        if self.ema_batch_norm and self.ema is None:
            raise AibError("ema_batch_norm is for averaged weights: add --ema, for example 0.999")
        parts = self.devices * self.nodes * self.accumulate
        if self.batch_size % parts:
            raise AibError(
                f"batch_size {self.batch_size} cannot be shared out evenly over "
                f"{self.devices * self.nodes} devices x {self.accumulate} accumulated parts"
            )

    def _reject_holdout(self) -> None:
        """In the data's name it would hold out images, and nothing would be evaluated on them."""
        from aib.data.load import parse_name  # imports torch, which the command line does without

        if (share := parse_name(self.data)[2].get("holdout")) is not None:
            raise AibError(
                f"holdout is a setting, not an option of the data {self.data}: leave it out there "
                f"and add --holdout {share}"
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

    @property
    def measured_split(self) -> str:
        """The split that commands measure on by default: `val` where there is no test set."""
        from aib.data import has_split  # imports torch, which the command line does without

        return "test" if has_split(self.data, "test") else "val"

    @property
    def reported(self) -> str:
        """The name in evaluation.json of the evaluation that a training ends with."""
        return f"{self.data} {self.final_split}"

    @property
    def final_split(self) -> str:
        """The split that a training ends with: held-out images if there are any, else test."""
        return "val" if self.holdout else self.measured_split

    def own_evaluation(self, names: Collection[str]) -> str | None:
        """Which of these names in evaluation.json is the run's own result, if any.

        On test images, also those of a later `aib eval` without options, before held-out images.
        """
        # By name: the images themselves may be elsewhere by now.
        wanted = f"{self.data} test", f"{self.data} val"
        return next((name for name in wanted if name in names), None)

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

        A missing key is one that an older version did not have: its default is what it did.
        """
        reject_unknown(values, setting_types(), f"{where}: no setting", "aib train --help")
        options = {name: value for name, value in values.items() if name in OPTION_NAMES}
        read: Settings = parse_json(cls, values, where)
        return replace(read, options=parse_json(ModelOptions, options, where))


def setting_types() -> dict[str, Any]:
    """Types of all settings by name, the model's options among them."""
    types: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(Settings).items():
        types |= typing.get_type_hints(ModelOptions) if name == "options" else {name: hint}
    return types


# Settings that only say where and how a run is done.
MACHINE = {
    "root", "workers", "graphs", "accelerator", "devices", "oversubscribe", "nodes", "log_every",
    "checkpoint_every", "evaluate_every", "loggers",
}  # fmt: skip
# Settings that choose data and model: `fit` is given both.
CHOICES = {
    "data", "root", "holdout", "strict", "model", *OPTION_NAMES, "at", "masked", "layout",
    "prefix_tokens", "token_grid", "pretrained", "evaluator", "backbone", "init",
}  # fmt: skip
