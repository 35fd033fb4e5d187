"""The picture on the page, the blocks that cover it, and what each run says of it."""

from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from aib.data.decode import centre_square, open_rgb, resized, to_tensor
from aib.errors import AibError
from aib.figures.picture import Array
from aib.preprocessing import Preprocessing
from aib.runs import Run
from aib.viewer.analysis import Analysis, analyse

SHOWN_SIDE = 512  # pixels of the longer side of the picture to click on
Box = tuple[float, float, float, float]  # left, top, right, bottom in shares of the whole image


@dataclass(frozen=True)
class Block:
    """A square that hides a part of the picture. Shares of the image fit every model's size."""

    x: float  # its centre, in shares of the image's width
    y: float  # and of its height
    side: float  # in shares of the image's shorter side

    def box(self, width: int, height: int) -> Box:
        """Where it lies on an image of this form: moved inside where it would reach beyond."""
        side = self.side * min(width, height)
        across, down = side / width, side / height
        left = min(max(self.x - across / 2, 0.0), 1 - across)
        top = min(max(self.y - down / 2, 0.0), 1 - down)
        return left, top, left + across, top + down


@dataclass(frozen=True)
class Picture:
    """An image as people see it and as each run's model takes it."""

    name: str
    width: int  # of the file's image
    height: int
    shown: Array  # uint8 [H,W,3], at most SHOWN_SIDE a side
    pixels: tuple[Tensor, ...]  # uint8 [3,S,S] for each run


@dataclass(frozen=True)
class Scene:
    """One visitor's picture with its blocks. Kept on the server, so that a slider is quick."""

    picture: Picture
    before: tuple[Analysis, ...]  # of the whole picture, one for each run
    now: tuple[Analysis, ...]  # with the blocks
    blocks: tuple[Block, ...] = ()

    @property
    def used_levels(self) -> int:
        """How many quantised levels the busiest map has; 0 where no run quantises."""
        return max(len(found.used_levels) for found in self.now)

    def boxes(self) -> list[Box]:
        """Where the blocks lie, in shares of the image."""
        return [block.box(self.picture.width, self.picture.height) for block in self.blocks]


class Viewer:
    """The runs that are looked at, and how many samples they draw."""

    def __init__(
        self,
        runs: list[Run],
        *,
        samples: tuple[int, int] | None = None,
        max_pixels: int = 40_000_000,
    ) -> None:
        self.runs, self.samples, self.max_pixels = runs, samples, max_pixels
        # The draws are seeded in the global generator: one visitor at a time.
        self._turn = Lock()

    def read(self, path: Path) -> Scene:
        """A file that somebody sent; what is wrong with it is said without the server's folders."""
        try:
            image = open_rgb(path, max_pixels=self.max_pixels)
        except AibError as error:
            raise AibError(str(error).replace(str(path), path.name)) from error
        return self.show(image, path.name)

    def show(self, image: Image.Image, name: str) -> Scene:
        """A new picture, nothing covered."""
        policies = [run.model.preprocessing for run in self.runs]
        pixels = tuple(to_tensor(resized(image, p.image_size, p.resize)) for p in policies)
        small = image.copy()
        small.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
        picture = Picture(name, image.width, image.height, np.asarray(small), pixels)
        seen = self._look(pixels)
        return Scene(picture, before=seen, now=seen)

    def cover(self, scene: Scene, block: Block) -> Scene:
        """One block more."""
        covered = replace(scene, blocks=(*scene.blocks, block))
        return replace(covered, now=self._look(self.pixels(covered)))

    def uncover(self, scene: Scene) -> Scene:
        """No blocks."""
        return replace(scene, blocks=(), now=scene.before)

    def pixels(self, scene: Scene) -> tuple[Tensor, ...]:
        """What each run's model sees now: uint8 [3,S,S], blocks in its own mean colour."""
        found = []
        for run, pixels in zip(self.runs, scene.picture.pixels, strict=True):
            policy = run.model.preprocessing
            frame = frame_of(policy, scene.picture.width, scene.picture.height)
            for box in scene.boxes():
                pixels = paint(pixels, box, frame, mean_colour(policy))
            found.append(pixels)
        return tuple(found)

    def shown(self, scene: Scene, run: int | None = None) -> Array:
        """The picture with its blocks, uint8 [H,W,3]: whole, or cut as one run's model sees it."""
        policy = self.runs[run or 0].model.preprocessing
        whole = torch.from_numpy(scene.picture.shown.copy()).permute(2, 0, 1)  # [3,H,W]
        for box in scene.boxes():
            whole = paint(whole, box, (0, 0, 1, 1), mean_colour(policy))
        image = Image.fromarray(whole.permute(1, 2, 0).numpy())
        if run is not None and policy.resize == "crop":
            image = image.crop(tuple(round(v) for v in centre_square(*image.size)))  # type: ignore[arg-type]
        return np.asarray(image)

    def _look(self, pixels: tuple[Tensor, ...]) -> tuple[Analysis, ...]:
        with self._turn:
            return tuple(
                analyse(run.model, seen, samples=self.samples)
                for run, seen in zip(self.runs, pixels, strict=True)
            )


def frame_of(policy: Preprocessing, width: int, height: int) -> Box:
    """The part of the image that a model sees, in shares of it."""
    if policy.resize == "squash":
        return 0.0, 0.0, 1.0, 1.0
    left, top, right, bottom = centre_square(width, height)
    return left / width, top / height, right / width, bottom / height


def mean_colour(policy: Preprocessing) -> Tensor:
    """uint8 [3]: the colour that is nearest to zero for the model, so that a block says least."""
    return (torch.tensor(policy.mean) * 255).round().clamp(0, 255).to(torch.uint8)


def paint(pixels: Tensor, box: Box, frame: Box, colour: Tensor) -> Tensor:
    """Pixels uint8 [3,H,W] of the part `frame` of an image, with one colour over `box`.

    A pixel is covered if its centre is.
    """
    left, top, right, bottom = frame
    height, width = pixels.shape[1:]
    x = left + (torch.arange(width) + 0.5) / width * (right - left)  # [W], shares of the image
    y = top + (torch.arange(height) + 0.5) / height * (bottom - top)  # [H]
    across = (x >= box[0]) & (x < box[2])
    down = (y >= box[1]) & (y < box[3])
    return torch.where(down[:, None] & across[None, :], colour[:, None, None], pixels)
