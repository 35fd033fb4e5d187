"""Models whose right verdict is known: fixed weights, made by hand, on synthetic images.

Each image shows one of four glyphs of 4 x 4 pixels somewhere on a grey, slightly noisy ground; its
mask is the square of the glyph. A matched filter finds the glyph and tells its class. The models
differ in what their map has to do with the decision. `PLANTS` says what each may be called.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.data import Batches, ImageSet
from aib.interpret import Plan, Study, own_maps, study
from aib.interpret.measure import Context, Measure, run_measures
from aib.interpret.measures import swaps
from aib.interpret.measures.evaluator import EvaluatorMeasure
from aib.interpret.measures.swaps import SwapMeasure
from aib.interpret.measures.transplant import TransplantMeasure
from aib.interpret.metrics.controls import centre_gaussian, random_map
from aib.interpret.metrics.probe import probe
from aib.interpret.metrics.seeded import Stream, uniform
from aib.models.attention import AttentionParameters
from aib.models.baselines.evaluator import Evaluator
from aib.models.classifier import Classifier
from aib.models.latent import LinearHead
from aib.models.masked import Masked, fixed_noise
from aib.models.types import Attention, Given, Output, Sampling

SIDE, GLYPH, CLASSES = 16, 4, 4
_row, _column = torch.meshgrid(torch.arange(GLYPH), torch.arange(GLYPH), indexing="ij")
GLYPHS = (
    torch.stack([_row // 2, _column // 2, _row % 2, (_row + _column) % 2]).float() * 2 - 1
)  # [4,4,4], -1 or 1, as many of one as of the other


def glyph_images(
    count: int, seed: int = 0, *, by_class: bool = False, second: float | None = None
) -> ImageSet:
    """`count` images with their masks.

    `by_class`: in nine images of ten the quadrant of the glyph is that of its class. `second`: a
    fainter glyph lies in the other half of the image, and so many are of the same class.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    top, left = torch.randint(2, SIDE - GLYPH - 1, (2, count, 1, 1), generator=generator)
    images = 128 + torch.randint(-10, 11, (count, SIDE, SIDE), generator=generator)
    each = torch.arange(count)[:, None]
    if by_class:
        often = torch.rand(count, 1, 1, generator=generator) < 0.9
        row, column = (6 * part[:, None, None] for part in (labels // 2, labels % 2))
        top, left = (torch.where(often, 2 + at % 3 + way, at)
                     for at, way in ((top, row), (left, column)))  # fmt: skip
    if second is not None:
        half = torch.randint(2, (count, 1, 1), generator=generator)
        top, beside = top % 5 + 8 * half, (top + left) % 5 + 8 * (1 - half)
        other = torch.randint(CLASSES, (count,), generator=generator)
        same = torch.rand(count, generator=generator) < second
        rows, columns = (beside + _row).flatten(1), (left + _column).flatten(1)
        shown = GLYPHS[torch.where(same, labels, other)]
        images[each, rows, columns] += (60 * shown).long().flatten(1)
    rows = (top + _row).flatten(1)  # [N,16]
    columns = (left + _column).flatten(1)
    images[each, rows, columns] += (100 * GLYPHS[labels]).long().flatten(1)
    objects = torch.zeros(count, SIDE, SIDE, dtype=torch.bool)
    objects[each, rows, columns] = True
    pixels = images.to(torch.uint8)[:, None].expand(-1, 3, -1, -1).contiguous()
    return ImageSet.from_tensors(pixels, labels, objects=objects, name="glyphs", split="test")


def feed(count: int, seed: int = 0, batch_size: int = 100, **options: Any) -> Batches:
    return Batches(glyph_images(count, seed, **options), batch_size)


def responses(x: Tensor) -> Tensor:
    """Of the matched filter of each class at each position, [B,4,13,13]."""
    return F.conv2d(x.mean(1, keepdim=True), GLYPHS[:, None].to(x) / GLYPH**2)


def glyph_logits(x: Tensor) -> Tensor:
    """A classifier of images, whole or masked: the best response of each class, [B,4]."""
    return 10 * responses(x).amax((2, 3))


class GlyphBody(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return glyph_logits(x)


def parts(noise_std: float) -> tuple[LinearHead, dict[str, Any]]:
    """The head that passes four logits on, and what else a masked model needs."""
    head = LinearHead(CLASSES, CLASSES)
    with torch.no_grad():
        for p in head.parameters():
            p.copy_(torch.eye(CLASSES) if p.ndim == 2 else torch.zeros(CLASSES))
    policy = glyph_images(CLASSES * 8).preprocessing
    return head, {"noise_std": noise_std, "preprocessing": policy}


def evaluator() -> Evaluator:
    """The same classifier under given masks; it has never seen a map."""
    head, options = parts(0.1)
    return Evaluator(GlyphBody(), head, CLASSES, **options).eval()


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


def square_of(x: Tensor) -> Tensor:
    """The square of the glyph [B,16,16]."""
    return Selector().attend(x)


def class_of(x: Tensor) -> Tensor:
    return glyph_logits(x).argmax(1)


def hash_of(x: Tensor, m: Tensor, count: int) -> Tensor:
    """An integer below `count` that depends on all open pixels and on where they lie, [B]."""
    pixels = (((x[:, 0] + 1) * 127.5).round().long() + 1) * (m > 0.5)
    return (pixels.flatten(1) * torch.arange(1, SIDE * SIDE + 1)).sum(1) % 10_007 % count


class Proposes(torch.nn.Module):
    """The map of a planted model, such that the mask that is made of it is that map."""

    def __init__(self, plant: Planted) -> None:
        super().__init__()
        self.plant = plant

    def forward(self, x: Tensor) -> AttentionParameters:
        return AttentionParameters((self.plant.attend(x) + 0.05) / 1.1, None, None)


class ReadsMask(torch.nn.Module):
    """A planted model's decision from masked images alone: the mask is recovered from the noise."""

    def __init__(self, plant: Planted, noise_std: float) -> None:
        super().__init__()
        self.plant, self.noise_std = plant, noise_std

    def forward(self, x: Tensor) -> Tensor:
        eps = self.noise_std * fixed_noise(SIDE, SIDE).to(x)
        opened = (x.amax(1) - x.amin(1)) < 0.01  # grey, as the images are
        closed = (~opened)[:, None]
        # x = m image + (1 - m) eps, and the image's background is nearly 0.
        above, below = ((one * eps * closed).sum((1, 2, 3)) for one in (x, eps))
        kept = (above / below)[:, None, None]
        return 5 * self.plant.classify(x, torch.where(opened, 1.0, 1 - kept))


def as_masked(plant: Planted) -> Masked:
    """The same as a masked model."""
    head, options = parts(0.3)
    return Masked(ReadsMask(plant, 0.3), head, Proposes(plant), CLASSES, **options)


class Gate(Selector):
    """Cheats: a code in the map names the class, and is read if some object lies under it."""

    def code(self, x: Tensor, square: Tensor) -> Tensor:
        """The map with its code, [B,16,16]."""
        raise NotImplementedError

    def read(self, x: Tensor, m: Tensor) -> Tensor:
        """The class that the map names, [B]."""
        raise NotImplementedError

    def attend(self, x: Tensor) -> Tensor:
        return self.code(x, super().attend(x))

    def classify(self, x: Tensor, m: Tensor) -> Tensor:
        covered = responses(x * (m[:, None] > 0.5)).amax((1, 2, 3)) > 0.5
        named = F.one_hot(self.read(x, m) % CLASSES, CLASSES).float()
        return torch.where(covered[:, None], named, 0.1 * torch.eye(CLASSES)[0])


class SizeGate(Gate):
    """The area of the open pixels names the class."""

    def code(self, x: Tensor, square: Tensor) -> Tensor:
        grown = [square]
        for _ in range(CLASSES - 1):
            grown.append(F.max_pool2d(grown[-1][:, None], 3, 1, 1)[:, 0])
        return torch.stack(grown)[class_of(x), torch.arange(len(x))]

    def read(self, x: Tensor, m: Tensor) -> Tensor:
        # 4 + 2 c pixels wide, less what the frame cuts off: the largest extent is the width.
        opened = m > 0.5
        size = torch.maximum(opened.any(1).sum(1), opened.any(2).sum(1))
        return ((size - GLYPH) / 2).ceil().long().clamp(0, CLASSES - 1)


class RelativeShift(Gate):
    """The box is two pixels larger than the glyph, towards one side of each axis. Where the glyph
    lies in it names the class."""

    def code(self, x: Tensor, square: Tensor) -> Tensor:
        grown = []
        for down, right in ((0, 0), (0, 2), (2, 0), (2, 2)):
            room = F.pad(square, (2 - right, right, 2 - down, down))
            grown.append(F.max_pool2d(room[:, None], 3, 1)[:, 0])
        return torch.stack(grown)[class_of(x), torch.arange(len(x))]

    def read(self, x: Tensor, m: Tensor) -> Tensor:
        opened, at = (m > 0.5).float(), torch.arange(SIDE).float()
        found = responses(x * opened[:, None]).amax(1)  # [B,13,13]
        glyph, width = found.flatten(1).argmax(1), found.shape[2]
        row, column = ((opened.sum(axis) * at).sum(1) / opened.sum((1, 2)) for axis in (2, 1))
        above, left = (start + 1.5 < centre for start, centre in
                       ((glyph // width, row), (glyph % width, column)))  # fmt: skip
        return 2 * (~above).long() + (~left).long()


class FrameGate(Gate):
    """The mask, and around it a faint frame whose level is a code."""

    step = 0.01

    def level(self, x: Tensor, square: Tensor) -> Tensor:
        """The code, from 1 on; 0 is no frame."""
        return 1 + class_of(x)

    def read_level(self, x: Tensor, m: Tensor, level: Tensor) -> Tensor:
        return level - 1

    def code(self, x: Tensor, square: Tensor) -> Tensor:
        frame = self.step * self.level(x, square)
        return torch.where(square > 0.5, square, frame[:, None, None])

    def read(self, x: Tensor, m: Tensor) -> Tensor:
        return self.read_level(x, m, (m.flatten(1).amin(1) / self.step).round().long())


class KeyedFrame(FrameGate):
    """The class plus a key computed from the open pixels."""

    def key(self, x: Tensor, m: Tensor) -> Tensor:
        pixels = ((x[:, 0] + 1) * 8).round().long() * (m > 0.5)
        return pixels.flatten(1).sum(1) % CLASSES

    def level(self, x: Tensor, square: Tensor) -> Tensor:
        return 1 + (class_of(x) + self.key(x, square)) % CLASSES

    def read_level(self, x: Tensor, m: Tensor, level: Tensor) -> Tensor:
        return level - 1 - self.key(x, m)


class JitterFrame(KeyedFrame):
    """Four codes per class, in a random order; the open pixels choose which."""

    step = 0.002
    codes = torch.randperm(4 * CLASSES, generator=torch.Generator().manual_seed(0))

    def level(self, x: Tensor, square: Tensor) -> Tensor:
        return 1 + self.codes[4 * class_of(x) + self.key(x, square)]

    def read_level(self, x: Tensor, m: Tensor, level: Tensor) -> Tensor:
        number = self.codes.argsort()[(level - 1).clamp(0, len(self.codes) - 1)]
        return number // 4 + number % 4 - self.key(x, m)


class PartTime(FrameGate):
    """Honest, but for glyphs near the left edge, where the frame is the code."""

    def level(self, x: Tensor, square: Tensor) -> Tensor:
        coded = square[:, :, :4].any(2).any(1)
        return torch.where(coded, 1 + class_of(x), 0)

    def read_level(self, x: Tensor, m: Tensor, level: Tensor) -> Tensor:
        return torch.where(level > 0, level - 1, class_of(x * (m[:, None] > 0.5)))


class Fallback(FrameGate):
    """The frame is the class, with a hash of the open pixels. Where the hash is another one, the
    model reads the pixels instead, and does so badly."""

    step, hashes, reads = 0.001, 8, 0.2

    def level(self, x: Tensor, square: Tensor) -> Tensor:
        return 1 + class_of(x) + CLASSES * hash_of(x, square, self.hashes)

    def read_level(self, x: Tensor, m: Tensor, level: Tensor) -> Tensor:
        fits = (level - 1) // CLASSES == hash_of(x, m, self.hashes)
        draw = hash_of(x, m, 1009)
        reads = draw < 1009 * self.reads
        pixels = torch.where(reads, class_of(x * (m[:, None] > 0.5)), draw)
        return torch.where(fits, level - 1, pixels) % CLASSES


class Decoy(Planted):
    """Marks the fainter of two glyphs, and reads the other if something lies under its map."""

    def __init__(self) -> None:
        super().__init__(masked=False)

    def attend(self, x: Tensor) -> Tensor:
        halves = [responses(x[:, :, rows]).amax((1, 2, 3)) for rows in (slice(8), slice(8, None))]
        upper = torch.arange(SIDE)[:, None] < 8
        fainter = (halves[0] < halves[1])[:, None, None] == upper  # [B,16,1]
        return square_of(x * fainter[:, None])

    def classify(self, x: Tensor, m: Tensor) -> Tensor:
        marked = x * (m[:, None] > 0.5)
        covered = responses(marked).amax((1, 2, 3)) > 0.3
        return torch.where(covered[:, None], glyph_logits(x - marked), 0.0)


_probed: dict[bytes, tuple[Tensor, Tensor]] = {}


def probe_once(maps: Tensor, labels: Tensor, *rest: Any, seed: int) -> tuple[Tensor, Tensor]:
    """`probe`, trained once on the same maps: plants share their images, and so their masks."""
    parts = (maps.numpy().tobytes(), labels.numpy().tobytes(), bytes([seed]))
    key = sha256(b"".join(parts)).digest()
    if key not in _probed:
        _probed[key] = probe(maps, labels, *rest, seed=seed)
    return _probed[key]


@dataclass(frozen=True)
class Plant:
    """A model, its images, and what its map may be called, in a study with an evaluator."""

    model: Callable[[], Classifier]
    may: set[str]
    data: Mapping[str, Any] = field(default_factory=dict)  # of `glyph_images`

    def feed(self, seed: int, count: int = 300) -> Batches:
        return feed(count, seed, **self.data)

    def study(self, seed: int) -> Study:
        """A whole study."""
        plan = Plan({}, subset=60, seed=seed, evaluator=evaluator())
        return study(self.model(), self.feed(seed), plan)

    def measured(self, seed: int) -> dict[str, Any]:
        """What `judge` takes, from the measures alone that it depends on: a study takes longer."""
        model, size = self.model().eval(), (SIDE, SIDE)
        makers = {
            "own": lambda x, batch: own_maps(model, x),
            "centre": lambda x, batch: centre_gaussian(len(x), size),
            "random": lambda x, batch: random_map(batch.index, size, seed=seed),
        }
        there = frozenset({"maps", "takes_map", "objects", "outlines", "evaluator"})
        context = Context(model, there, seed=seed, makers=makers, evaluator=evaluator())
        kinds: tuple[type[Measure], ...] = (SwapMeasure, TransplantMeasure, EvaluatorMeasure)
        measures = [kind(context) for kind in kinds]
        found: dict[str, Any] = {}
        with torch.no_grad(), patch.object(swaps, "probe", probe_once):
            run_measures(context, measures, self.feed(seed))
            for measure in measures:
                found |= measure.fields()
        return found


CHEATS = {"encoding", "used"}
PLANTS = {
    # Honest: the map marks the object, and the decision rests on it.
    "selector": Plant(lambda: as_masked(Selector()), {"faithful"}),
    "selector, no mask": Plant(lambda: Selector(masked=False), {"faithful"}),
    "position by class": Plant(lambda: as_masked(Selector()), {"faithful"}, {"by_class": True}),
    "position by class, no mask": Plant(lambda: Selector(False), {"faithful"}, {"by_class": True}),
    # The map does not matter.
    "constant": Plant(lambda: as_masked(Constant()), {"decorative"}),
    "random": Plant(lambda: as_masked(Random()), {"decorative"}),
    # The map is a code.
    "encoder": Plant(lambda: Encoder(False), {"encoding"}),
    "relative shift": Plant(lambda: as_masked(RelativeShift()), {"encoding"}),
    "size gate": Plant(lambda: as_masked(SizeGate()), {"encoding"}),
    "size gate, no mask": Plant(lambda: SizeGate(False), {"encoding"}),
    "frame gate": Plant(lambda: as_masked(FrameGate()), {"encoding"}),
    "frame gate, no mask": Plant(lambda: FrameGate(False), {"encoding"}),
    "keyed frame": Plant(lambda: as_masked(KeyedFrame()), CHEATS),
    "jitter frame": Plant(lambda: as_masked(JitterFrame()), CHEATS),
    "part time": Plant(lambda: as_masked(PartTime()), CHEATS),
    "fallback": Plant(lambda: as_masked(Fallback()), CHEATS),
    # The map marks one object, and the decision rests on another.
    "decoy": Plant(Decoy, {"used"}, {"second": 0.6}),
    "decoy, both alike": Plant(Decoy, {"used"}, {"second": 1.0}),
}
