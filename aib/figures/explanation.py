"""The picture of an explanation, panels side by side, and the files of a saved one."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from aib.errors import AibError
from aib.figures.overlay import SIGMA_COLORS, Array, kept, overlay
from aib.figures.picture import Panel, draw_row, limits, magnified, save_image
from aib.figures.scale import FLAT
from aib.system.files import finite, sha256, write_json, write_whole

if TYPE_CHECKING:
    from aib.models.explanation import Explanation

OPACITY = 0.55  # of a map over its image
BEST = 3  # classes that the picture names
SEEN = "seen by the classifier\n(the dark part was noise)"


def draw(explanation: "Explanation", image: int = 0, subtitle: str = "") -> Image.Image:
    """Draw one image's explanation as a row of panels below its title."""
    one = explanation[image].cpu()
    best, *others = [f"{name} {100 * p:.1f}%" for name, p in one.top(0, BEST)]
    title = ", ".join(filter(None, [best, one.certainty()]))
    lines = [f"or {', '.join(others)}", *filter(None, [subtitle])]
    row = panels(one)
    height, width = one.images[0].shape[:2]
    frame = one.regions[0].part if one.regions else (0, 0, width, height)
    return draw_row(row, frame, title=title, subtitle="\n".join(lines))


def panels(explanation: "Explanation", image: int = 0, *, opacity: float = OPACITY) -> list[Panel]:
    """The parts of one image's picture."""
    one = explanation[image].cpu()
    map = one.shown_map
    if map is None or not one.images:
        raise AibError("a picture needs the image and a map: use aib.explain(model, source)")
    box = one.regions[0].box if one.regions else None
    row = [Panel("image" + (f"\n(box: {one.cut})" if box else ""), one.images[0], box=box)]
    if one.mask is not None:
        row.append(Panel(SEEN, kept(magnified(one.images[0]), one.mask[0])))
    low, high = limits(map) if one.mask is None else (0.0, 1.0)  # a mask is a share
    name = "attention" if one.method == "own" else str(one.method)
    name = "mask" if one.mask is not None else f"{name} map"
    scaled = (map[0] - low) / max(high - low, FLAT)
    over = overlay(magnified(one.images[0]), scaled, alpha=opacity, scale=False)
    row.append(Panel(name, over, (low, high), box=box))
    if one.level_indices is not None and one.anchors is not None:
        used, count = one.level_indices.unique().numel(), len(one.anchors)
        values = one.level_indices[0].numpy()
        row.append(Panel(f"levels, {used} of {count} used", values, (0, max(count - 1, 1))))
    if one.sigma is not None:
        row.append(Panel("uncertainty σ", one.sigma[0].numpy(), limits(one.sigma), SIGMA_COLORS))
    return row


def save(
    explanation: "Explanation",
    folder: Path,
    names: Sequence[str] = (),
    *,
    subtitle: str = "",
    overwrite: bool = False,
) -> list[Path]:
    """Write the files of each image; returns the pictures' paths.

    NAME.npy is the raw map [h,w], of a masked model its mask; NAME.mask.png is 255 where it
    exceeds the threshold. Without `names` they are those of the image files.
    """
    names = names or distinct_names(
        [path.stem for path in explanation.paths] or ["image"] * len(explanation)
    )
    if len(set(names)) != len(explanation):
        raise AibError(f"save needs {len(explanation)} different names, not {list(names)}")
    maps = explanation.shown_map
    if maps is None or not explanation.images or not explanation.regions:
        raise AibError("saving needs images and maps: use aib.explain(model, source)")
    pictures = [folder / f"{name}.png" for name in names]
    if not overwrite and (existing := [path for path in pictures if path.exists()]):
        raise AibError(f"{existing[0]} exists: choose a new folder, or allow to overwrite it")
    for i, (name, picture) in enumerate(zip(names, pictures, strict=True)):
        save_image(draw(explanation, i, subtitle), picture)
        raw = maps[i].detach().float().cpu().numpy()
        write_whole(folder / f"{name}.npy", partial(_save_array, raw))
        cut = Image.fromarray(explanation.regions[i].mask.astype(np.uint8) * 255)
        save_image(cut, folder / f"{name}.mask.png")
        write_json(folder / f"{name}.json", finite(record(explanation, i) | explanation.made_with))
    return pictures


def record(explanation: "Explanation", image: int = 0) -> dict[str, Any]:
    """How one image was explained, in plain JSON types."""
    one = explanation[image].cpu()
    [region], map, top = one.regions, one.shown_map, one.top(0)
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
        "threshold": one.threshold,
        "cut": one.cut,
        "box": region.box and list(region.box),
        "image_size": list(region.mask.shape[::-1]),
        "seen_part": list(region.part),
    }
    if one.mask is not None and one.bits is not None:
        values |= {"mask_bits": float(one.bits.sum()), "area": float(one.mask.mean())}
    return values


def distinct_names(names: Iterable[str]) -> list[str]:
    """The names in order; one whose files are taken gets a number: cat, cat-2."""
    taken: set[str] = set()
    distinct = []
    for name in names:
        candidate, number = name, 2
        while taken & (stems := {candidate, f"{candidate}.mask"}):
            candidate, number = f"{name}-{number}", number + 1
        taken |= stems
        distinct.append(candidate)
    return distinct


def _save_array(array: Array, path: Path) -> None:
    with path.open("wb") as file:  # given a name, numpy would add .npy to it
        np.save(file, array)
