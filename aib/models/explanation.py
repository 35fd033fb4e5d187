"""The map behind a decision, with its picture and its files: one type for all models and maps."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.figures.fonts import in_order
from aib.figures.overlay import BITS_COLORS, SIGMA_COLORS, Array, overlay
from aib.figures.picture import image_tile, limits, magnified
from aib.figures.row import Box, Panel, draw_row
from aib.figures.saved import check_targets, distinct_names, save_files
from aib.figures.scale import FLAT, enlarge, stretch_note
from aib.models.decision import Decision
from aib.system.files import sha256

CLOSED = "the mask is closed everywhere, and nothing of the image was seen"


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
    sample_maps: Tensor | None = None  # [S,B,h,w], as the features met them
    energy_passed: Tensor | None = None  # [B], feature energy after modulation over that before
    mask: Tensor | None = None  # [B,H,W], masked models: the share of each pixel that is seen
    seen: Tensor | None = None  # [B,3,H,W], masked models: the normalised image under the mask
    bits: Tensor | None = None  # [B,H,W], masked models: at most so many pass each pixel
    preprocessing: Preprocessing | None = None  # masked models: of `seen`

    images: tuple[Array, ...] = ()  # uint8 [H,W,3] each, cropped as the model saw them
    paths: tuple[Path, ...] = ()  # the files that the images were read from, if any
    regions: tuple[Region, ...] = ()
    threshold: float | None = None  # of the regions
    expected: int | None = None  # the class that the predicted one is compared with
    class_method: str | None = None  # how the class maps were made
    class_maps: Tensor | None = None  # [B,2,H,W], of the predicted and of the expected class
    made_with: dict[str, Any] = field(default_factory=dict)  # model, preprocessing, versions

    @property
    def attention(self) -> Tensor | None:
        """[B,H,W], the map at image size; of a masked model the mask itself."""
        if self.mask is not None:
            return self.mask
        return None if self.map is None else enlarge(self.map, self.size)

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
        """How certain one image's decision is, in a line; a warning if it saw nothing of it."""
        line = super().certainty(image)
        return f"{line}; {CLOSED}" if bool(self.closed[image]) else line

    @property
    def seen_pixels(self) -> Tensor | None:
        """uint8 [B,3,H,W]: what the classifier of a masked model saw, clipped to 0..255."""
        if self.seen is None or self.preprocessing is None:
            return None
        return self.preprocessing.to_pixels(self.seen)

    @property
    def std(self) -> Tensor | None:
        """[B,H,W], sigma_a at image size."""
        return None if self.sigma is None else enlarge(self.sigma, self.size)

    @property
    def levels(self) -> Tensor | None:
        """[B,H,W], the anchors' indices in rising order of their values, at image size."""
        return None if self.level_indices is None else enlarge(self.level_indices, self.size)

    def cpu(self) -> "Explanation":
        """The same with every tensor on the CPU, maps in float32."""
        return replace(self, **{k: _to_cpu(v) for k, v in vars(self).items()})

    def __getitem__(self, image: int) -> "Explanation":
        """The explanation of one image, as a batch of one."""
        if not -len(self) <= image < len(self):  # also ends an iteration
            raise IndexError(f"no image {image}: there are {len(self)} images")
        one = slice(image, image + 1) if image != -1 else slice(image, None)
        per_sample = ("sample_probabilities", "sample_maps")
        per_batch = (
            "probabilities", "map", "sigma", "level_indices", "kl_bits", "energy_passed", "images",
            "paths", "mask", "seen", "bits", "regions", "class_maps",
        )  # fmt: skip
        parts: dict[str, Any] = {
            n: v[one] for n in per_batch if (v := getattr(self, n)) is not None
        }
        parts |= {n: v[:, one] for n in per_sample if (v := getattr(self, n)) is not None}
        return replace(self, **parts)

    def draw(self, image: int = 0, subtitle: str = "") -> Image.Image:
        """One image's picture: image, map over it, levels, uncertainty.

        For a masked model also what the classifier saw, and the bits that the mask lets through.
        """
        one = self[image].cpu()
        panels, title = one.panels(), one._percent(int(one.prediction[0]))
        if one.expected is not None:
            title += f"  (expected: {one._percent(one.expected)})"
        height, width = one.images[0].shape[:2]
        frame = one.regions[0].part if one.regions else (0, 0, width, height)
        return draw_row(panels, frame, title=f"{title}, {one.certainty()}", subtitle=subtitle)

    def panels(self, image: int = 0) -> list[Panel]:
        """The parts of one image's picture."""
        one = self[image].cpu()
        shown, seen = one.shown_map, one.seen_pixels
        if shown is None or not one.images:
            raise AibError("a picture needs the image and a map: use aib.explain(model, source)")
        image_box = one.regions[0].box if one.regions else None
        large = magnified(one.images[0])

        def over(title: str, map: Tensor, ends: tuple[float, float], **options: Any) -> Panel:
            """The map over the image, in colours between `ends`."""
            scaled = (map - ends[0]) / max(ends[1] - ends[0], FLAT)
            return Panel(title, overlay(large, scaled, alpha=0.55, scale=False), ends, **options)

        ends = limits(shown) if one.mask is None else (0.0, 1.0)  # a mask is a share
        note = stretch_note(*ends) if one.method == "own" else ""
        name = "image" + (f"\n(box: {one._cut})" if image_box else "")
        panels = [Panel(name, one.images[0], box=image_box)]
        if seen is not None:
            panels.append(Panel("seen by the classifier", image_tile(seen[0])))
        name = f"{_map_name(one.method)} map" + (f"\n({note})" if note else "")
        panels.append(over(name, shown[0], ends, box=image_box))
        if one.bits is not None:
            name = f"bits per pixel ({float(one.bits.sum()):,.0f} pass)"
            panels.append(Panel(name, one.bits[0].numpy(), limits(one.bits), BITS_COLORS))
        if one.level_indices is not None and one.anchors is not None:
            used, count = one.level_indices.unique().numel(), len(one.anchors)
            values = one.level_indices[0].numpy()
            panels.append(Panel(f"levels, {used} of {count} used", values, (0, max(count - 1, 1))))
        if one.sigma is not None:
            sigma = one.sigma[0].numpy()
            panels.append(Panel("uncertainty σ", sigma, limits(one.sigma), SIGMA_COLORS))
        if one.class_maps is not None and one.expected is not None:
            of = ((int(one.prediction[0]), "predicted"), (one.expected, "expected"))
            for (i, role), map in zip(of, one.class_maps[0], strict=True):
                name = f"{_map_name(one.class_method)} map\n{role}: {one._percent(i)}"
                panels.append(over(name, map, limits(one.class_maps)))
        return panels

    @property
    def _cut(self) -> str:
        """The condition that the regions fulfil."""
        return f"map > {self.threshold:g}" + ("" if self.mask is not None else " of its range")

    def _percent(self, label: int) -> str:
        """A class of the first image with its probability."""
        return f"{in_order(self.name_of(label))}  {100 * float(self.probabilities[0, label]):.1f}%"

    def record(self, image: int = 0) -> dict[str, Any]:
        """How one image was explained, in plain JSON types."""
        one = self[image].cpu()
        top, shown = one.top(0), one.shown_map
        pixels = hashlib.sha256(one.images[0].tobytes()).hexdigest() if one.images else None
        image_sha256 = sha256(one.paths[0]) if one.paths else pixels
        passed = {} if one.bits is None else {"mask_bits": float(one.bits.sum())}
        if one.mask is not None:
            passed["area"] = float(one.mask.mean())
        cut: dict[str, Any] = {}
        for region in one.regions:
            height, width = region.mask.shape
            cut = {
                "threshold": one.threshold,
                "cut": one._cut,
                "box": region.box and list(region.box),
                "image_size": [width, height],
                "seen_part": list(region.part),
            }
        if one.expected is not None:
            cut["expected"] = one.name_of(one.expected)
            cut["expected_probability"] = float(one.probabilities[0, one.expected])
            cut["class_method"] = one.class_method
        return {
            "image": str(one.paths[0]) if one.paths else None,
            "image_sha256": image_sha256,
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
            "map_size": None if shown is None else list(shown.shape[1:]),
            "map_range": None if shown is None else list(limits(shown)),
            **passed,
            **cut,
        }

    def save(
        self, folder: str | Path, names: Sequence[str] = (), *, subtitle: str = ""
    ) -> list[Path]:
        """Write NAME.png, NAME.npy, NAME.mask.png and NAME.json for each image.

        NAME.npy is the raw map [h,w], of a masked model its mask; NAME.mask.png is 255 where it
        exceeds the threshold. With an expected class NAME.classes.npy has both class maps.
        Without `names` they are the image files' own. Only files of earlier calls are replaced.
        Returns the pictures' paths.
        """
        folder = Path(folder)
        if not names:
            stems = [path.stem for path in self.paths] or ["image"] * len(self)
            names = distinct_names(stems)
        if len(set(names)) != len(self):
            raise AibError(f"save needs {len(self)} different names, not {list(names)}")
        maps = self.shown_map
        if maps is None or not self.images or not self.regions:
            raise AibError("saving needs images and maps: use aib.explain(model, source)")
        check_targets(folder, names)
        written = []
        for i, name in enumerate(names):
            classes = None if self.class_maps is None else self.class_maps[i]
            record, mask = self.record(i) | self.made_with, self.regions[i].mask
            picture = self.draw(i, subtitle)
            written.append(save_files(folder, name, picture, maps[i], mask, classes, record))
        return written


def _map_name(method: str | None) -> str:
    return "attention" if method == "own" else str(method).replace("_", " ")


def _to_cpu(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().float().cpu() if value.is_floating_point() else value.cpu()
