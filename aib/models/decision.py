"""What a model decided on a batch of images, and how certain it is."""

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from aib.models.calibration import Calibration

# Without a calibration a decision is unsure above this share of the entropy of a guess.
UNSURE = 0.5


@dataclass(frozen=True)
class Decision:
    """The probabilities of a batch of images, and those of every sample behind them."""

    probabilities: Tensor  # [B,C], averaged over the samples as the model's profile says
    size: tuple[int, int]  # H, W of the images
    class_names: tuple[str, ...] = ()
    samples: str = "deterministic"  # "4x12": attention x latent samples
    seed: int | None = None  # of the samples
    sample_probabilities: Tensor | None = None  # [S*M,B,C]
    kl_bits: Tensor | None = None  # [B], KL of the latent to its prior
    unsure_below: float | None = None  # a calibrated probability; None before `calibrated`

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def prediction(self) -> Tensor:
        """[B], the class with the highest probability."""
        return self.probabilities.argmax(-1)

    @property
    def probability(self) -> Tensor:
        """[B], of the predicted class."""
        return self.probabilities.amax(-1)

    @property
    def entropy_bits(self) -> Tensor:
        """[B], entropy of the decision."""
        return entropy_bits(self.probabilities)

    @property
    def max_entropy_bits(self) -> float:
        """Entropy of a guess among all classes."""
        return math.log2(self.probabilities.shape[-1])

    @property
    def disagreement_bits(self) -> Tensor | None:
        """[B], H(mean p) - mean H(p): 0 where all samples agree, however unsure they are."""
        each = self.sample_probabilities
        if each is None or len(each) < 2:
            return None
        return (entropy_bits(each.mean(0)) - entropy_bits(each).mean(0)).clamp_min(0)

    @property
    def unsure(self) -> Tensor:
        """[B], whether the decision may well be wrong: by the calibration, or by the entropy."""
        if self.unsure_below is not None:
            return self.probability < self.unsure_below
        return self.entropy_bits > UNSURE * self.max_entropy_bits

    @property
    def scope(self) -> str:
        """What even a certain decision does not mean, in a sentence."""
        count = self.probabilities.shape[-1]
        return f"one of the {count} classes that the model knows; any other picture gets one too"

    def calibrated(self, calibration: Calibration | None) -> Self:
        """With probabilities at a calibration's temperature, unsure where it says so."""
        if calibration is None:
            return self
        each = self.sample_probabilities
        return replace(
            self,
            probabilities=_at_temperature(self.probabilities, calibration.temperature),
            sample_probabilities=(
                None if each is None else _at_temperature(each, calibration.temperature)
            ),
            unsure_below=calibration.unsure_below,
        )

    def certainty(self, image: int = 0) -> str:
        """How certain one image's decision is, in a line."""
        bits = f"entropy {float(self.entropy_bits[image]):.2f} of {self.max_entropy_bits:.2f} bits"
        unsure = ": unsure, it may show none of the classes"
        return bits + (unsure if bool(self.unsure[image]) else "")

    def names(self) -> list[str]:
        """The predicted classes by name."""
        return [self.name_of(i) for i in self.prediction.tolist()]

    def name_of(self, label: int) -> str:
        """A class by name, or by number where the model has no names."""
        return self.class_names[label] if self.class_names else str(label)

    def top(self, image: int, count: int = 5) -> list[tuple[str, float]]:
        """The likeliest classes of one image with their probabilities."""
        # Stable: of equal ones the first is the prediction.
        values, labels = self.probabilities[image].sort(descending=True, stable=True)
        pairs = zip(labels[:count].tolist(), values[:count].tolist(), strict=True)
        return [(self.name_of(label), probability) for label, probability in pairs]


def _at_temperature(probabilities: Tensor, temperature: float) -> Tensor:
    """Probabilities as if the logits were divided by the temperature."""
    logs = probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
    return (logs / temperature).softmax(-1)


def entropy_bits(probabilities: Tensor) -> Tensor:
    """Entropy in bits over the last dimension."""
    return torch.special.entr(probabilities).sum(-1) / math.log(2)
