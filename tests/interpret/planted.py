"""Models whose right verdict is known: fixed weights, made by hand, on synthetic images.

Each image shows one of four glyphs of 4 x 4 pixels somewhere on a grey, slightly noisy ground; its
mask is the square of the glyph. A matched filter finds the glyph and tells its class. The models
differ in what their map has to do with the decision.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.data import Batches, ImageSet
from aib.interpret.metrics.seeded import Stream, uniform
from aib.models.attention import AttentionParameters
from aib.models.baselines.evaluator import Evaluator
from aib.models.classifier import Classifier
from aib.models.latent import LinearHead
from aib.models.types import Attention, Given, Output, Sampling

SIDE, GLYPH, CLASSES = 16, 4, 4
_row, _column = torch.meshgrid(torch.arange(GLYPH), torch.arange(GLYPH), indexing="ij")
GLYPHS = (
    torch.stack([_row // 2, _column // 2, _row % 2, (_row + _column) % 2]).float() * 2 - 1
)  # [4,4,4], -1 or 1, as many of one as of the other


def glyph_images(count: int, seed: int = 0) -> ImageSet:
    """`count` images with their masks."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    top, left = torch.randint(SIDE - GLYPH + 1, (2, count, 1, 1), generator=generator)
    images = 128 + torch.randint(-10, 11, (count, SIDE, SIDE), generator=generator)
    rows = (top + _row).flatten(1)  # [N,16]
    columns = (left + _column).flatten(1)
    each = torch.arange(count)[:, None]
    images[each, rows, columns] += (100 * GLYPHS[labels]).long().flatten(1)
    objects = torch.zeros(count, SIDE, SIDE, dtype=torch.bool)
    objects[each, rows, columns] = True
    pixels = images.to(torch.uint8)[:, None].expand(-1, 3, -1, -1).contiguous()
    return ImageSet.from_tensors(pixels, labels, objects=objects, name="glyphs", split="test")


def feed(count: int, seed: int = 0, batch_size: int = 100) -> Batches:
    return Batches(glyph_images(count, seed), batch_size)


def responses(x: Tensor) -> Tensor:
    """Of the matched filter of each class at each position, [B,4,13,13]."""
    return F.conv2d(x.mean(1, keepdim=True), GLYPHS[:, None].to(x) / GLYPH**2)


def glyph_logits(x: Tensor) -> Tensor:
    """A classifier of images, whole or masked: the best response of each class, [B,4]."""
    return 10 * responses(x).amax((2, 3))


class GlyphBody(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return glyph_logits(x)


def evaluator() -> Evaluator:
    """The same classifier under given masks; it has never seen a map."""
    head = LinearHead(CLASSES, CLASSES)
    with torch.no_grad():
        for p in head.parameters():
            p.copy_(torch.eye(CLASSES) if p.ndim == 2 else torch.zeros(CLASSES))
    policy = glyph_images(CLASSES * 8).preprocessing
    return Evaluator(GlyphBody(), head, CLASSES, noise_std=0.1, preprocessing=policy).eval()


class FromRed(torch.nn.Module):
    """Proposes how red each position is: `gain` times a normalised image's red plus `offset`."""

    def __init__(self, gain: float = 1.0, offset: float = 0.0, stride: int = 1) -> None:
        super().__init__()
        self.gain, self.offset, self.stride = gain, offset, stride

    def forward(self, x: Tensor) -> AttentionParameters:
        red = F.avg_pool2d(x[:, 0], self.stride)
        return AttentionParameters((self.gain * red + self.offset).clamp(0, 1), None, None)


class Planted(Classifier):
    """Map and image to a decision; each kind says what its map is and how it is used."""

    takes_map = True

    def __init__(self, masked: bool = True):
        super().__init__(CLASSES)
        self.takes_mask = masked
        self.scale = torch.nn.Parameter(torch.ones(()))  # gives the model a device
        self.preprocessing = glyph_images(CLASSES * 8).preprocessing

    def attend(self, x: Tensor) -> Tensor:
        """The map [B,16,16]."""
        raise NotImplementedError

    def classify(self, x: Tensor, m: Tensor) -> Tensor:
        """Logits of the image under the map: closed pixels are grey."""
        return glyph_logits(x * m[:, None])

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        own = given.mask if given.attention_map is None else given.attention_map
        m = self.attend(x) if own is None else own
        logits = self.scale * self.classify(x, m)
        return Output(logits[None, None], Attention.fixed(m), mask=m[None])


class Selector(Planted):
    """Opens the square of the glyph, and decides on what is open."""

    def attend(self, x: Tensor) -> Tensor:
        best = responses(x).amax(1)  # [B,13,13]
        here = (best == best.amax((1, 2), keepdim=True)).float()
        # Each position of the filter covers 4 x 4 pixels.
        return F.conv_transpose2d(here[:, None], torch.ones(1, 1, GLYPH, GLYPH))[:, 0].clamp(0, 1)


class Encoder(Planted):
    """Sees the class, opens the quadrant of that number, and decides by which one is open."""

    def attend(self, x: Tensor) -> Tensor:
        label = glyph_logits(x).argmax(1)
        quadrants = F.one_hot(label, CLASSES).float().view(-1, 2, 2)
        large = quadrants.repeat_interleave(SIDE // 2, 1).repeat_interleave(SIDE // 2, 2)
        return large * (0.7 + 0.3 * noise_of(x))  # no two maps are alike

    def classify(self, x: Tensor, m: Tensor) -> Tensor:
        return F.avg_pool2d(m[:, None], SIDE // 2).flatten(1)


class Constant(Planted):
    """The same map for every image."""

    def attend(self, x: Tensor) -> Tensor:
        return torch.full((len(x), SIDE, SIDE), 0.5)


class Random(Planted):
    """A map of noise that has nothing to do with what the image shows."""

    def attend(self, x: Tensor) -> Tensor:
        return 0.8 + 0.2 * noise_of(x)


def noise_of(x: Tensor) -> Tensor:
    """Uniform noise [B,16,16] that depends on the pixels, to the bit, and on nothing in them."""
    pixels = ((x[:, 0] + 1) * 127.5).round().long().flatten(1)
    key = (pixels * torch.arange(1, pixels.shape[1] + 1)).sum(1)
    return uniform(0, Stream.RANDOM_MAP, key, SIDE * SIDE).view(-1, SIDE, SIDE)
