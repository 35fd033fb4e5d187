"""The picture on the page, the blocks that cover it, and each run's explanation of it."""

from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from aib.data.decode import centre_square, open_rgb, resized, to_tensor
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.figures.overlay import Array
from aib.interpret.maps import explain_batch
from aib.models.explanation import Explanation
from aib.runs.run import Run

MAX_PIXELS = 40_000_000  # of an uploaded image
SHOWN_SIDE = 512  # pixels of the longer side of the picture to click on
Box = tuple[float, float, float, float]  # left, top, right, bottom as fractions of the image


@dataclass(frozen=True)
class Scene:
    """One visitor's picture with its blocks. It stays on the server, so that sliders are quick."""

    name: str
    size: tuple[int, int]  # width and height of the original image
    shown: Array  # uint8 [H,W,3], at most SHOWN_SIDE per side
    pixels: tuple[Tensor, ...]  # uint8 [3,S,S] for each run's model
    before: tuple[Explanation, ...]  # of the whole picture, one per run
    now: tuple[Explanation, ...]  # with the blocks
    blocks: tuple[Box, ...] = ()  # squares that hide a part of the picture


class Viewer:
    """The runs shown, and how they are sampled."""

    def __init__(self, runs: list[Run], samples: tuple[int, int] | None = None) -> None:
        self.runs, self.samples = runs, samples
        self._lock = Lock()  # the seeded noise comes from the global generator

    def read(self, path: Path) -> Scene:
        """Show an uploaded file; error messages do not name the server's folders."""
        try:
            image = open_rgb(path, max_pixels=MAX_PIXELS)
        except AibError as error:
            raise AibError(str(error).replace(str(path), path.name)) from error
        return self.show(image, path.name)

    def show(self, image: Image.Image, name: str) -> Scene:
        """Explain a new picture without blocks."""
        policies = [run.model.preprocessing for run in self.runs]
        pixels = tuple(to_tensor(resized(image, p.image_size, p.resize)) for p in policies)
        small = image.copy()
        small.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
        found = self._explain(pixels)
        return Scene(name, image.size, np.asarray(small), pixels, before=found, now=found)

    def cover(self, scene: Scene, x: float, y: float, side: float) -> Scene:
        """Add the block around (x, y) and explain again."""
        covered = replace(scene, blocks=(*scene.blocks, block(x, y, side, *scene.size)))
        return replace(covered, now=self._explain(self.inputs(covered)))

    def uncover(self, scene: Scene) -> Scene:
        return replace(scene, blocks=(), now=scene.before)

    def inputs(self, scene: Scene) -> tuple[Tensor, ...]:
        """Each model's input uint8 [3,S,S], with the blocks in its own mean colour."""
        found = []
        for run, pixels in zip(self.runs, scene.pixels, strict=True):
            policy = run.model.preprocessing
            for box in scene.blocks:
                pixels = paint(pixels, box, visible_part(policy, *scene.size), mean_colour(policy))
            found.append(pixels)
        return tuple(found)

    def shown(self, scene: Scene, run: int | None = None) -> Array:
        """The picture with its blocks, uint8 [H,W,3]: whole, or cropped as one run's model does."""
        policy = self.runs[run or 0].model.preprocessing
        whole = to_tensor(Image.fromarray(scene.shown))  # [3,H,W]
        for box in scene.blocks:
            whole = paint(whole, box, (0, 0, 1, 1), mean_colour(policy))
        image = whole.permute(1, 2, 0).numpy()
        if run is None or policy.resize == "squash":
            return image
        left, top, right, bottom = map(int, centre_square(image.shape[1], image.shape[0]))
        return image[top:bottom, left:right]

    def _explain(self, inputs: tuple[Tensor, ...]) -> tuple[Explanation, ...]:
        """Explain each model's input; equal seeds make blocks the only cause of a change."""
        found = []
        for run, pixels in zip(self.runs, inputs, strict=True):
            device = next(run.model.parameters()).device
            x = run.model.preprocessing.normalise(pixels[None].to(device))  # [1,3,S,S]
            with self._lock:
                one = explain_batch(run.model, x, method="auto", samples=self.samples, seed=0)
            found.append(one.calibrated(getattr(run.model, "calibration", None)).cpu())
        return tuple(found)


def block(x: float, y: float, side: float, width: int, height: int) -> Box:
    """The square around (x, y), moved inside where it would cross the border of the image.

    x and y are fractions of the width and the height, `side` of the shorter of them.
    """
    side *= min(width, height)
    across, down = side / width, side / height
    left = min(max(x - across / 2, 0.0), 1 - across)
    top = min(max(y - down / 2, 0.0), 1 - down)
    return left, top, left + across, top + down


def visible_part(policy: Preprocessing, width: int, height: int) -> Box:
    """The part of an image that a model sees."""
    if policy.resize == "squash":
        return 0.0, 0.0, 1.0, 1.0
    left, top, right, bottom = centre_square(width, height)
    return left / width, top / height, right / width, bottom / height


def mean_colour(policy: Preprocessing) -> Tensor:
    """The training images' mean, uint8 [3]: zero for the model, the least informative colour."""
    return (torch.tensor(policy.mean) * 255).round().clamp(0, 255).to(torch.uint8)


def paint(pixels: Tensor, box: Box, part: Box, colour: Tensor) -> Tensor:
    """Fill `box` with a colour in uint8 [3,H,W], which shows the `part` of an image.

    A pixel is filled if its centre lies in the box.
    """
    left, top, right, bottom = part
    height, width = pixels.shape[1:]
    x = left + (torch.arange(width) + 0.5) / width * (right - left)  # [W], fractions of the image
    y = top + (torch.arange(height) + 0.5) / height * (bottom - top)  # [H]
    across = (x >= box[0]) & (x < box[2])
    down = (y >= box[1]) & (y < box[3])
    return torch.where(down[:, None] & across[None, :], colour[:, None, None], pixels)
