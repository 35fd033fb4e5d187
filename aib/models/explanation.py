"""A decision and the map behind it: one type for all models and maps, its picture and its files."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image
from torch import Tensor

from aib.errors import AibError
from aib.figures.overlay import FLAT, SIGMA_COLORS, Array, enlarge, kept, overlay
from aib.figures.picture import (
    Panel,
    distinct_names,
    draw_row,
    limits,
    magnified,
    save_array,
    save_image,
)
from aib.models.types import Calibration
from aib.system.files import finite, sha256, write_json

# Without a calibration a decision is unsure above this share of the entropy of a guess.
UNSURE = 0.5
CLOSED = "the mask is closed everywhere, and nothing of the image was seen"
OPACITY = 0.55  # of a map over its image
BEST = 3  # classes that the picture names
SEEN = "seen by the classifier\n(the dark part was noise)"
PER_IMAGE = (
    "probabilities", "map", "sigma", "level_indices", "kl_bits", "images", "paths",
    "mask", "seen", "bits",
)  # fmt: skip


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
    mask: Tensor | None = None  # [B,H,W], masked models: the share of each pixel that is seen
    seen: Tensor | None = None  # [B,3,H,W], masked models: the normalised image under the mask
    bits: Tensor | None = None  # [B,H,W], masked models: at most so many pass each pixel

    images: tuple[Array, ...] = ()  # uint8 [H,W,3] each, cropped as the model saw them
    paths: tuple[Path, ...] = ()  # the files that the images were read from, if any
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

    def save(
        self,
        folder: str | Path,
        names: Sequence[str] = (),
        *,
        subtitle: str = "",
        overwrite: bool = False,
    ) -> list[Path]:
        """Write picture, raw map and record of each image; returns the pictures' paths.

        NAME.npy is the raw map [h,w], of a masked model its mask. Without `names` they are those
        of the image files. An existing picture is an error unless `overwrite`.
        """
        stems = [path.stem for path in self.paths] or ["image"] * len(self)
        names = names or distinct_names(stems)
        if len(set(names)) != len(self):
            raise AibError(f"save needs {len(self)} different names, not {list(names)}")
        if self.shown_map is None or not self.images:
            raise AibError("saving needs images and maps: use aib.explain(model, source)")
        pictures = [Path(folder) / f"{name}.png" for name in names]
        if not overwrite and (existing := [path for path in pictures if path.exists()]):
            raise AibError(f"{existing[0]} exists: choose a new folder, or allow to overwrite it")
        for i, picture in enumerate(pictures):
            _write(self[i].cpu(), picture, subtitle)
        return pictures


def _write(one: Explanation, picture: Path, subtitle: str) -> None:
    """Write the files of the explanation of a single image."""
    assert one.shown_map is not None
    save_image(draw(one, subtitle=subtitle), picture)
    save_array(one.shown_map[0].numpy(), picture.with_name(f"{picture.stem}.npy"))
    values = finite(record(one) | one.made_with)
    write_json(picture.with_name(f"{picture.stem}.json"), values)


def draw(explanation: Explanation, image: int = 0, subtitle: str = "") -> Image.Image:
    """Draw one image's explanation as a row of panels below its title."""
    one = explanation[image].cpu()
    best, *others = [f"{name} {100 * p:.1f}%" for name, p in one.top(0, BEST)]
    title = ", ".join(filter(None, [best, one.certainty()]))
    lines = [f"or {', '.join(others)}", *filter(None, [subtitle])]
    row = panels(one)
    return draw_row(row, one.images[0].shape, title=title, subtitle="\n".join(lines))


def panels(explanation: Explanation, image: int = 0, *, opacity: float = OPACITY) -> list[Panel]:
    """The parts of one image's picture."""
    one = explanation[image].cpu()
    map = one.shown_map
    if map is None or not one.images:
        raise AibError("a picture needs the image and a map: use aib.explain(model, source)")
    row = [Panel("image", one.images[0])]
    if one.mask is not None:
        row.append(Panel(SEEN, kept(magnified(one.images[0]), one.mask[0])))
    low, high = limits(map) if one.mask is None else (0.0, 1.0)  # a mask is a share
    name = "attention" if one.method == "own" else str(one.method)
    name = "mask" if one.mask is not None else f"{name} map"
    scaled = (map[0] - low) / max(high - low, FLAT)
    over = overlay(magnified(one.images[0]), scaled, alpha=opacity, scale=False)
    row.append(Panel(name, over, (low, high)))
    if one.level_indices is not None and one.anchors is not None:
        used, count = one.level_indices.unique().numel(), len(one.anchors)
        values = one.level_indices[0].numpy()
        row.append(Panel(f"levels, {used} of {count} used", values, (0, max(count - 1, 1))))
    if one.sigma is not None:
        row.append(Panel("uncertainty σ", one.sigma[0].numpy(), limits(one.sigma), SIGMA_COLORS))
    return row


def record(explanation: Explanation, image: int = 0) -> dict[str, Any]:
    """How one image was explained, in plain JSON types."""
    one = explanation[image].cpu()
    map, top = one.shown_map, one.top(0)
    assert map is not None
    pixels = hashlib.sha256(one.images[0].tobytes()).hexdigest()
    values: dict[str, Any] = {
        "image": str(one.paths[0]) if one.paths else None,
        "image_sha256": sha256(one.paths[0]) if one.paths else pixels,
        "prediction": top[0][0],
        "probability": top[0][1],
        "entropy_bits": float(one.entropy_bits[0]),
        "max_entropy_bits": one.max_entropy_bits,
        "unsure": bool(one.unsure[0]),
        "top": [{"class": name, "probability": p} for name, p in top],
        "method": one.method,
        "gradcam_layer": one.layer,
        "samples": one.samples,
        "seed": one.seed,
        "map_size": list(map.shape[1:]),
        "map_range": list(limits(map)),
    }
    if one.mask is not None and one.bits is not None:
        values |= {"mask_bits": float(one.bits.sum()), "area": float(one.mask.mean())}
    return values


def _to_cpu(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().float().cpu() if value.is_floating_point() else value.cpu()


def entropy_bits(probabilities: Tensor) -> Tensor:
    """Entropy in bits over the last dimension."""
    return torch.special.entr(probabilities).sum(-1) / math.log(2)
