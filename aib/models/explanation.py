"""A decision and the map behind it: one type for all models and maps.

`figures/explanation.py` draws it and writes its files.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image
from torch import Tensor

from aib.data.preprocessing import Preprocessing
from aib.figures.explanation import draw, save
from aib.figures.overlay import Array
from aib.figures.picture import Box
from aib.figures.scale import enlarge
from aib.models.calibration import Calibration

# Without a calibration a decision is unsure above this share of the entropy of a guess.
UNSURE = 0.5
CLOSED = "the mask is closed everywhere, and nothing of the image was seen"
PER_IMAGE = (
    "probabilities", "map", "sigma", "level_indices", "kl_bits", "energy_passed", "images", "paths",
    "mask", "seen", "bits", "regions",
)  # fmt: skip


@dataclass(frozen=True)
class Region:
    """Where the map exceeds the threshold, in pixels of the original picture."""

    mask: Array  # bool [H,W]
    box: Box | None  # of the largest connected component; None for an empty mask
    part: Box  # the part of the picture that the model saw


@dataclass(frozen=True)
class Explanation:
    """Made by one forward pass. What a model does not have, or was not asked for, is None.

    Maps are stored on their own grid [B,h,w]; `attention`, `std` and `levels` give them at image
    size. `aib.explain` also fills in the last block, which `draw` and `save` need.
    """

    probabilities: Tensor  # [B,C], averaged over the samples as the model's profile says
    size: tuple[int, int]  # H, W of the images
    class_names: tuple[str, ...] = ()
    samples: str = "deterministic"  # "4x12": attention x latent samples
    seed: int | None = None  # of the samples
    kl_bits: Tensor | None = None  # [B], KL of the latent to its prior
    unsure_below: float | None = None  # a calibrated probability; None before `calibrated`

    method: str | None = None  # how the map was made: "own", "gradcam", ...; None without a map
    layer: str | None = None  # the layer that Grad-CAM read
    # [B,h,w], without noise; quantised where the model quantises, but mu of a masked model
    map: Tensor | None = None
    sigma: Tensor | None = None  # [B,h,w]
    level_indices: Tensor | None = None  # [B,h,w], 0 to Q - 1 in rising order of the anchors
    anchors: Tensor | None = None  # [Q], rising
    energy_passed: Tensor | None = None  # [B], feature energy after modulation over that before
    mask: Tensor | None = None  # [B,H,W], masked models: the share of each pixel that is seen
    seen: Tensor | None = None  # [B,3,H,W], masked models: the normalised image under the mask
    bits: Tensor | None = None  # [B,H,W], masked models: at most so many pass each pixel
    preprocessing: Preprocessing | None = None  # masked models: of `seen`

    images: tuple[Array, ...] = ()  # uint8 [H,W,3] each, cropped as the model saw them
    paths: tuple[Path, ...] = ()  # the files that the images were read from, if any
    regions: tuple[Region, ...] = ()
    threshold: float | None = None  # of the regions
    made_with: dict[str, Any] = field(default_factory=dict)  # model, preprocessing, versions

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
        tiny = torch.finfo(self.probabilities.dtype).tiny
        logits = self.probabilities.clamp_min(tiny).log() / calibration.temperature
        return replace(
            self, probabilities=logits.softmax(-1), unsure_below=calibration.unsure_below
        )

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

    @property
    def attention(self) -> Tensor | None:
        """[B,H,W], the map at image size; of a masked model the mask itself."""
        return self.mask if self.mask is not None else self._enlarged(self.map)

    @property
    def std(self) -> Tensor | None:
        """[B,H,W], sigma_a at image size."""
        return self._enlarged(self.sigma)

    @property
    def levels(self) -> Tensor | None:
        """[B,H,W], the anchors' indices in rising order of their values, at image size."""
        return self._enlarged(self.level_indices)

    def _enlarged(self, maps: Tensor | None) -> Tensor | None:
        return None if maps is None else enlarge(maps, self.size)

    @property
    def shown_map(self) -> Tensor | None:
        """[B,h,w] as drawn and saved: of a masked model the mask that was applied, [B,H,W]."""
        return self.map if self.mask is None else self.mask

    @property
    def seen_pixels(self) -> Tensor | None:
        """uint8 [B,3,H,W]: what the classifier of a masked model saw, clipped to 0..255."""
        if self.seen is None or self.preprocessing is None:
            return None
        return self.preprocessing.to_pixels(self.seen)

    @property
    def closed(self) -> Tensor:
        """[B], whether a mask is closed everywhere: then nothing of the image was seen."""
        if self.mask is None:
            return torch.zeros_like(self.prediction, dtype=torch.bool)
        return (self.mask == 0).all(-1).all(-1)

    def certainty(self, image: int = 0) -> str:
        """A warning in a line if the decision is unsure or saw nothing; else empty."""
        if bool(self.closed[image]):
            return CLOSED
        return "unsure: it may show none of the classes" if bool(self.unsure[image]) else ""

    @property
    def cut(self) -> str:
        """The condition that the regions fulfil."""
        return f"map > {self.threshold:g}" + ("" if self.mask is not None else " of its range")

    def cpu(self) -> Self:
        """The same with every tensor on the CPU, maps in float32."""
        return replace(self, **{k: _to_cpu(v) for k, v in vars(self).items()})

    def __getitem__(self, image: int) -> Self:
        """The explanation of one image, as a batch of one."""
        index = range(len(self))[image]  # its IndexError also ends an iteration
        one = slice(index, index + 1)
        parts: dict[str, Any] = {
            n: v[one] for n in PER_IMAGE if (v := getattr(self, n)) is not None
        }
        return replace(self, **parts)

    def draw(self, image: int = 0) -> Image.Image:
        """One image's picture: image, what was seen of it, map over it, levels, uncertainty."""
        return draw(self, image)

    def save(
        self, folder: str | Path, names: Sequence[str] = (), *, overwrite: bool = False
    ) -> list[Path]:
        """Write picture, raw map, mask and record of each image; returns the pictures' paths.

        Without `names` they are those of the image files. An existing picture is an error unless
        `overwrite`.
        """
        return save(self, Path(folder), names, overwrite=overwrite)


def _to_cpu(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().float().cpu() if value.is_floating_point() else value.cpu()


def entropy_bits(probabilities: Tensor) -> Tensor:
    """Entropy in bits over the last dimension."""
    return torch.special.entr(probabilities).sum(-1) / math.log(2)
