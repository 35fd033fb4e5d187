"""The map behind a decision: one type for all models and maps.

`figures/explanation.py` draws it and writes its files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from aib.data.preprocessing import Preprocessing
from aib.figures.explanation import draw, save
from aib.figures.overlay import Array
from aib.figures.picture import Box
from aib.figures.scale import enlarge
from aib.models.decision import Decision

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
class Explanation(Decision):
    """Made by one forward pass. What a model does not have, or was not asked for, is None.

    Maps are stored on their own grid [B,h,w]; `attention`, `std` and `levels` give them at image
    size. `aib.explain` also fills in the last block, which `draw` and `save` need.
    """

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
        return CLOSED if bool(self.closed[image]) else super().certainty(image)

    @property
    def cut(self) -> str:
        """The condition that the regions fulfil."""
        return f"map > {self.threshold:g}" + ("" if self.mask is not None else " of its range")

    def cpu(self) -> "Explanation":
        """The same with every tensor on the CPU, maps in float32."""
        return replace(self, **{k: _to_cpu(v) for k, v in vars(self).items()})

    def __getitem__(self, image: int) -> "Explanation":
        """The explanation of one image, as a batch of one."""
        index = range(len(self))[image]  # its IndexError also ends an iteration
        one = slice(index, index + 1)
        parts: dict[str, Any] = {
            n: v[one] for n in PER_IMAGE if (v := getattr(self, n)) is not None
        }
        if self.sample_probabilities is not None:
            parts["sample_probabilities"] = self.sample_probabilities[:, one]
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
