"""Everything that decides a training run: one dataclass.

The command line, its help, config.json and the presets are all made from it.
"""

import types
import typing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from aib.data import has_split
from aib.errors import AibError
from aib.profiles import Modulation
from aib.types import ProfileName, check_seed

Precision = Literal["fp32", "bf16", "fp16"]
LARGEST = 1e35  # a price, a rate, a number of epochs: single precision has to hold it


@dataclass(frozen=True)
class Settings:
    """Settings of a training run. The defaults are the paper's for VGG."""

    # --- what is trained, on what
    data: str = "shapes"
    """Data set: shapes, cifar10, cifar100, svhn, stl10, cub200 or folder:PATH."""
    root: str | None = None
    """Folder that holds the data set's official files; the cache folder if not given."""
    model: str = "vgg_aib_qt"
    """Model name; `aib models` lists them."""
    width: float = 1.0
    """Scales the model's channels."""
    dropout: float = 0.3
    """Dropout inside WRN's blocks at 32 x 32."""
    latent_dim: int | None = None
    """K, the size of the latent; the family's if not given."""
    num_anchors: int | None = None
    """Q, the number of anchors; the family's if not given."""
    modulation: Modulation | None = None
    """How attention acts on the features; the profile's if not given."""
    attention_depth: int = 0
    """Convolutions put in front of the paper's attention, for a larger receptive field."""
    attention_noise: float = 0.0
    """Added to the attention's deviation, so that a faint map carries little."""
    attention_guide: bool = False
    """Build the map from one map a class, taught by a second head as in ABN."""
    tap: int = 0
    """Blocks by which VGG's attention at 32 x 32 comes later; each halves the map's side."""
    profile: ProfileName = "paper"
    """The paper's mathematics, or the authors' released code."""
    init: str | None = None
    """Start from a trained model: a folder with model.safetensors, for example another run."""

    # --- loss
    beta: float = 0.01
    """Price of a nat in the latent."""
    lambda_q: float = 0.4
    """Weight of the quantisation term."""
    lambda_c: float = 0.1
    """Weight of the commitment term."""
    lambda_a: float = 0.0
    """Price of an open map, on its mean; not in the paper."""
    beta_warmup: float = 0.0
    """Epochs over which beta rises from 0 to its value."""

    # --- optimisation
    epochs: int = 200
    """Passes over the training set."""
    batch_size: int = 128
    """Images an update, over all devices and parts. An epoch leaves out what fills no batch."""
    accumulate: int = 1
    """Parts that a device's share of the batch is cut into, to save memory."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    """SGD with momentum (Nesterov's; plain with profile released), or AdamW."""
    lr: float = 0.1
    """Peak learning rate."""
    momentum: float = 0.9
    """Of SGD."""
    weight_decay: float = 5e-4
    """On weights; never on norms, biases and anchors, but with profile released on everything."""
    clip: float | None = None
    """Largest gradient norm; larger gradients are scaled down to it."""
    schedule: Literal["steps", "cosine"] = "steps"
    """The learning rate after warm-up: times `gamma` at each milestone, or a cosine to zero."""
    milestones: tuple[int, ...] = (25, 50, 75, 100, 125, 150, 175)
    """Epochs at which the learning rate falls."""
    gamma: float = 0.5
    """What it is multiplied by there."""
    warmup: float = 0.0
    """Epochs over which the learning rate rises from 0."""
    ema: float | None = None
    """Decay of a moving average of the weights, which is then what is evaluated and saved."""
    revive_anchors: bool = False
    """Move anchors that nobody chose in an epoch next to the busiest one."""

    # --- data
    holdout: float = 0.0
    """Share of the training set kept aside to choose settings by; the test set never is."""
    augment: bool = True
    """Random crops and, where a mirrored image keeps its class, flips; and the cut-out."""
    cutout: int = 0
    """Side of a blank square at a random place of each training image; 0 for none."""
    strict: bool = False
    """Stop at a damaged image file; otherwise it is named and left out."""
    workers: int = 2
    """Processes that decode images which do not fit into memory."""

    # --- machine
    precision: Precision = "fp32"
    """Arithmetic of the forward and backward pass; the weights stay fp32."""
    channels_last: bool = False
    """Memory layout that suits tensor cores."""
    compile: bool = False
    """torch.compile the step."""
    graphs: bool = False
    """Record a step as a CUDA graph and replay it. For one GPU; no effect elsewhere."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Kind of device."""
    devices: int = 1
    """Devices of this machine; without a GPU, processes."""
    oversubscribe: bool = False
    """Allow more processes than there are CPU cores, to try out a command for many GPUs."""
    nodes: int = 1
    """Machines, started by torchrun or SLURM."""
    seed: int = 0
    """Of the weights, the data's order and the noise."""

    # --- record
    log_every: int = 50
    """Steps between two looks at the device; in between nothing waits for it."""
    checkpoint_every: float = 5.0
    """Minutes between checkpoints; one is written at the end of training in any case."""
    evaluate_every: int = 1
    """Epochs between looks at the held-out part."""
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = field(default=())
    """Further places for the figures of metrics.jsonl."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "devices", "nodes", "log_every"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        self._require("evaluate_every", self.evaluate_every >= 1, "at least 1")
        not_negative = "beta lambda_q lambda_c lambda_a beta_warmup warmup weight_decay"
        for name in [*not_negative.split(), "checkpoint_every"]:
            self._require(name, 0 <= getattr(self, name) < LARGEST, "0 or more, below 1e35")
        self._require("lr", 0 < self.lr < LARGEST, "above 0 and below 1e35")
        self._require("momentum", 0 <= self.momentum < 1, "at least 0 and below 1")
        self._require("gamma", 0 < self.gamma <= 1, "above 0 and at most 1")
        self._require("width", 0 < self.width <= 16, "above 0 and at most 16")
        self._require("dropout", 0 <= self.dropout < 1, "at least 0 and below 1")
        self._require("attention_noise", 0 <= self.attention_noise <= 1, "0 to 1")
        self._require("holdout", 0 <= self.holdout < 1, "at least 0 and below 1")
        check_seed(self.seed)
        for name in ("workers", "cutout", "attention_depth", "tap"):
            self._require(name, getattr(self, name) >= 0, "0 or more")
        in_range = self.clip is None or 0 < self.clip < LARGEST
        self._require("clip", in_range, "above 0 and below 1e35")
        self._require("ema", self.ema is None or 0 < self.ema < 1, "between 0 and 1")
        rising = list(self.milestones) == sorted(set(self.milestones))
        self._require("milestones", rising and min(self.milestones, default=1) > 0, "rising epochs")
        if self.graphs and (self.accumulate > 1 or self.precision == "fp16"):
            raise AibError(
                "graphs cannot record accumulated parts, nor fp16's loss scale: add --no-graphs"
            )
        parts = self.devices * self.nodes * self.accumulate
        if self.batch_size % parts:
            raise AibError(
                f"batch_size {self.batch_size} cannot be shared out evenly over "
                f"{self.devices * self.nodes} devices x {self.accumulate} accumulated parts"
            )

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise AibError(f"{name} must be {rule}, not {getattr(self, name)}")

    @property
    def measured_split(self) -> str:
        """The part of the data that figures are reported on: `val` where there is no test set."""
        return "test" if has_split(self.data, "test") else "val"

    @property
    def reported(self) -> str:
        """Under which name the figures that a training ends with are kept."""
        return f"{self.data} {self.measured_split}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    def recipe(self) -> dict[str, Any]:
        """What differs from the defaults, without what only says where and how it was run."""
        values, plain = self.to_dict(), Settings().to_dict()
        return {k: v for k, v in values.items() if v != plain[k] and k not in MACHINE}

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: Path) -> "Settings":
        """The inverse of `to_dict`. Wrong keys or types are an error that names the file.

        A missing key is one that an older version did not have: its default is what it did.
        """
        hints = typing.get_type_hints(cls)
        unknown = sorted(set(values) - set(hints))
        if unknown:
            raise AibError(f"{where}: unknown settings: {', '.join(unknown)}")
        ready: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        for name, value in ready.items():
            if not _fits(value, hints[name]):
                raise AibError(f"{where}: {name} cannot be {value!r}")
        return cls(**ready)


# Settings that only say where and how a run is done.
MACHINE = {
    "root", "workers", "graphs", "accelerator", "devices", "oversubscribe", "nodes", "log_every",
    "checkpoint_every", "evaluate_every", "loggers",
}  # fmt: skip


def _fits(value: Any, hint: Any) -> bool:
    """Is the value of this simple type? A whole number passes for a float, as JSON may write it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, arguments[0]) for item in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)
