"""Base class of all models: checks the input, explains the output, saves."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from aib.config.options import is_library_name
from aib.config.profiles import get_profile
from aib.config.validation import ProfileName, at_least, check
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.models.explanation import Explanation
from aib.models.gaussian import kl_to_standard_normal, nats_to_bits
from aib.models.modes import evaluating
from aib.models.quantize import AnchorQuantizer
from aib.models.types import Attention, Calibration, Given, Noise, Output, Sampling
from aib.models.weights import CONFIG, SCHEMA, write_weights
from aib.system.files import write_json


class Classifier(nn.Module):
    """A network whose forward pass gives an `Output`. A new model implements `decide`.

    `recipe` holds the arguments that rebuild it (plain JSON types), `preprocessing` how its images
    were prepared. Both are written to config.json beside the weights.
    """

    takes_map = False  # whether it can be run under a given `attention_map`
    takes_mask = False  # whether it can be run under a given `mask` of pixels
    is_random = False  # whether a forward pass samples anything

    def __init__(
        self,
        num_classes: int,
        *,
        profile: ProfileName = "paper",
        min_size: int = 1,
        preprocessing: Preprocessing | None = None,
    ):
        super().__init__()
        check_classes(num_classes)
        self.num_classes = num_classes
        self.profile: ProfileName = profile
        self.eval_samples = get_profile(profile).eval_samples
        self.min_size = min_size  # the strides reduce smaller images to nothing
        self.preprocessing = preprocessing or Preprocessing()
        self.calibration: Calibration | None = None  # fitted on held-out images
        self.recipe: dict[str, Any] = {"kind": "custom"}
        self.quantizer: AnchorQuantizer | None = None
        self.pretrained_names: frozenset[str] = frozenset()  # parameters of a pretrained network

    @property
    def preprocessing(self) -> Preprocessing:
        """How images are prepared for the model, and the names of its classes."""
        return self._preprocessing

    @preprocessing.setter
    def preprocessing(self, value: Preprocessing) -> None:
        if len(value.class_names) not in (0, self.num_classes):
            count = len(value.class_names)
            raise AibError(f"{count} class names for a model of {self.num_classes} classes")
        self._preprocessing = value

    def forward(
        self,
        x: Tensor,
        samples: tuple[int, int] | None = None,
        *,
        deterministic: bool = False,
        noise: Noise | tuple[Tensor | None, ...] | None = None,
        attention_map: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Output:
        """Normalised images [B,3,H,W] to an Output.

        `samples` = (S, M): S attention samples, M latent samples for each; by default 1 x 1 in
        training and the profile's in evaluation. `deterministic` takes the means, `noise` replaces
        the random noise. `attention_map` [B,h,w] replaces the model's own map, `mask` [B,H,W] the
        mask of a masked model.
        """
        self.check_input(x)
        if attention_map is not None and not self.takes_map:
            raise AibError("this model has no single attention map that another could replace")
        if mask is not None and not self.takes_mask:
            raise AibError("this model masks no pixels; only masked models take a mask")
        if mask is not None and attention_map is not None:
            raise AibError("give an attention_map or a mask, not both")
        s, m = self.resolve_samples(samples, deterministic)
        sampling = Sampling(s, m, deterministic, Noise() if noise is None else Noise(*noise))
        return self.decide(x, sampling, Given(attention_map, mask))

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        """Images to an Output; input and samples are already checked. Each model implements it."""
        raise NotImplementedError

    def training_mask(self, x: Tensor) -> Tensor | None:
        """A mask [B,H,W] as the model is trained with it; None for its own, or for none."""
        return None

    def check_input(self, x: Tensor) -> None:
        """Check shape and dtype; raise a readable error."""
        if x.dim() != 4 or x.shape[0] == 0 or x.shape[1] != 3:
            raise AibError(f"images must be [B, 3, H, W] with B at least 1, not {list(x.shape)}")
        if not x.is_floating_point():
            raise AibError(f"images must be floats of preprocessing.normalise, not {x.dtype}")
        if min(x.shape[2:]) < self.min_size:
            size = f"{x.shape[2]} x {x.shape[3]}"
            raise AibError(f"images of {size} are too small; {self.min_size} is the smallest side")

    def resolve_samples(
        self, samples: tuple[int, int] | None, deterministic: bool
    ) -> tuple[int, int]:
        """Number of attention and latent samples of this pass."""
        if deterministic:
            return 1, 1
        if samples is None:
            return (1, 1) if self.training else self.eval_samples
        if len(samples) != 2 or min(samples) < 1:
            raise AibError(f"samples must be two integers of at least 1, not {samples}")
        return samples

    def describe_samples(self, samples: tuple[int, int] | None, deterministic: bool) -> str:
        """Samples of an evaluation pass, such as "4x12", for the record."""
        if deterministic or not self.is_random:
            return "deterministic"
        return "{}x{}".format(*(samples or self.eval_samples))

    def mean_map(self, attention: Attention) -> tuple[Tensor, Tensor | None]:
        """The deterministic map [B,h,w], and its levels where the model quantises."""
        return attention.mu, None

    @torch.no_grad()
    def explain(
        self, x: Tensor, samples: tuple[int, int] | None = None, *, deterministic: bool = False
    ) -> Explanation:
        """Classify images [B,3,H,W] and return the prediction with its attention map."""
        with evaluating(self):
            out = self(x, samples, deterministic=deterministic)
        if out.attention is None:
            raise AibError("this model has no attention map of its own; choose a post-hoc one")
        return self.explanation_of(out, x, self.describe_samples(samples, deterministic))

    def explanation_of(self, out: Output, x: Tensor, samples: str = "deterministic") -> Explanation:
        """The explanation in this model's output for images x."""
        explanation = Explanation(
            probabilities=out.average(get_profile(self.profile).averaging).softmax(-1),
            size=(x.shape[2], x.shape[3]),
            class_names=self.preprocessing.class_names,
            samples=samples,
        )
        if out.latent is not None:  # averaged over the attention samples
            kl = kl_to_standard_normal(out.latent.mu, out.latent.sigma)  # [S,B]
            explanation = replace(explanation, kl_bits=nats_to_bits(kl).mean(0))
        if out.attention is None:
            return explanation
        mean_map, levels = self.mean_map(out.attention)
        anchors = None if self.quantizer is None else self.quantizer.anchors.detach().sort().values
        return replace(
            explanation,
            method="own",
            map=mean_map,
            sigma=out.attention.sigma,
            level_indices=levels,
            anchors=anchors,
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write model.safetensors and config.json; `aib.from_pretrained` loads them."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_weights(self, folder)
        write_json(folder / CONFIG, self.config())

    def config(self) -> dict[str, Any]:
        """Contents of config.json."""
        return {
            "schema": SCHEMA,
            "library": "aib",
            "model": self.recipe,
            "preprocessing": self.preprocessing.to_dict(),
            "calibration": self.calibration and asdict(self.calibration),
        }


def model_name(model: Classifier) -> str:
    """The name that the model or its network was created by, or its class."""
    recipe = model.recipe
    return str(recipe.get("name") or recipe.get("backbone") or type(model).__name__)


def needs_backbone(recipe: dict[str, Any]) -> bool:
    """Whether a model was made from a network that neither aib nor a library has."""
    return recipe.get("kind") != "named" and not is_library_name(str(recipe.get("backbone")))


def check_model(model: nn.Module, caller: str) -> None:
    """Raise an error for a network that is no aib model; a compiled model is one."""
    if not isinstance(getattr(model, "_orig_mod", model), Classifier):
        kind = type(model).__name__
        raise AibError(f"{caller} takes a model of aib, not a {kind}: make one with aib.attach")


def check_classes(num_classes: int) -> None:
    """Raise an error unless this is a possible number of classes."""
    check("num_classes", num_classes, Annotated[int, at_least(2)])
