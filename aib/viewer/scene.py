"""The picture on the page, the blocks that cover it, and the model's explanation of it."""

from dataclasses import dataclass, replace
from threading import Lock

import torch
from PIL import Image
from torch import Tensor

from aib.data.decode import centre_square, resized, to_tensor
from aib.figures.overlay import Array
from aib.figures.picture import image_tile
from aib.interpret.maps import explain_batch
from aib.interpret.verdict import StoredVerdict
from aib.models.classifier import Classifier
from aib.models.explanation import Explanation

SHOWN_SIDE = 512  # pixels of the longer side of the picture to click on
Example = tuple[Image.Image, str]  # the second is "DATA, SPLIT: CLASS", or "SOURCE: NAME"
Box = tuple[float, float, float, float]  # left, top, right, bottom as fractions of the picture


@dataclass(frozen=True)
class Scene:
    """One visitor's picture with its blocks. It stays on the server, so that sliders are quick."""

    name: str
    shown: Tensor  # uint8 [3,H,W], the part that the model sees, at most SHOWN_SIDE per side
    pixels: Tensor  # uint8 [3,S,S], as the model takes it
    before: Explanation  # of the whole picture
    now: Explanation  # with the blocks
    blocks: tuple[Box, ...] = ()  # squares that hide a part of the picture


class Viewer:
    """A model, its title on the page, the verdict on its map, and how it is sampled."""

    def __init__(
        self,
        model: Classifier,
        title: str,
        verdict: StoredVerdict | None = None,
        samples: tuple[int, int] | None = None,
    ) -> None:
        self.model, self.title, self.verdict, self.samples = model, title, verdict, samples
        self.policy = model.preprocessing
        self._lock = Lock()  # the seeded noise comes from the global generator

    def show(self, image: Image.Image, name: str) -> Scene:
        """Explain a new picture without blocks."""
        pixels = to_tensor(resized(image, self.policy.image_size, self.policy.resize))
        visible = image.copy()  # `thumbnail` works in place
        if self.policy.resize == "crop":
            left, top, right, bottom = map(int, centre_square(*image.size))
            visible = image.crop((left, top, right, bottom))
        visible.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
        explanation = self._explain(pixels)
        return Scene(name, to_tensor(visible), pixels, before=explanation, now=explanation)

    def cover(self, scene: Scene, x: float, y: float, side: float) -> Scene:
        """Add the block around (x, y) and explain again."""
        height, width = scene.shown.shape[1:]
        blocks = (*scene.blocks, block(x, y, side, width, height))
        now = self._explain(self._with_blocks(scene.pixels, blocks))
        return replace(scene, blocks=blocks, now=now)

    def uncover(self, scene: Scene) -> Scene:
        return replace(scene, blocks=(), now=scene.before)

    def picture(self, scene: Scene) -> Array:
        """The picture with its blocks, uint8 [H,W,3]."""
        return image_tile(self._with_blocks(scene.shown, scene.blocks))

    def _with_blocks(self, pixels: Tensor, blocks: tuple[Box, ...]) -> Tensor:
        # The training images' mean, zero for the model, is the least informative colour.
        mean = (torch.tensor(self.policy.mean) * 255).round().clamp(0, 255).to(torch.uint8)
        for box in blocks:
            pixels = paint(pixels, box, mean)
        return pixels

    def _explain(self, pixels: Tensor) -> Explanation:
        """Explain the model's input; equal seeds make blocks the only cause of a change."""
        model = self.model
        x = self.policy.normalise(pixels[None].to(next(model.parameters()).device))  # [1,3,S,S]
        with self._lock:
            explanation = explain_batch(model, x, method="auto", samples=self.samples, seed=0)
        return explanation.calibrated(model.calibration).cpu()


def block(x: float, y: float, side: float, width: int, height: int) -> Box:
    """The square around (x, y), moved inside where it would cross the border of the picture.

    x and y are fractions of the width and the height, `side` of the shorter of them.
    """
    side *= min(width, height)
    across, down = side / width, side / height
    left = min(max(x - across / 2, 0.0), 1 - across)
    top = min(max(y - down / 2, 0.0), 1 - down)
    return left, top, left + across, top + down


def paint(pixels: Tensor, box: Box, colour: Tensor) -> Tensor:
    """Fill the pixels of uint8 [3,H,W] whose centres lie in the box with a colour."""
    height, width = pixels.shape[1:]
    x = (torch.arange(width) + 0.5) / width  # [W], fractions of the picture
    y = (torch.arange(height) + 0.5) / height  # [H]
    across = (x >= box[0]) & (x < box[2])
    down = (y >= box[1]) & (y < box[3])
    return torch.where(down[:, None] & across[None, :], colour[:, None, None], pixels)
