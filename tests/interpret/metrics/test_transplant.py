"""Objects under the maps of other images: boxes, resampling, and models that cheat."""

import math

import pytest
import torch
import torch.nn.functional as F

from aib.interpret import Plan, study
from aib.interpret.measures.transplant import fits, mask_boxes, mass_boxes, place
from tests.interpret import planted
from tests.interpret.planted import CLASSES, GLYPH


def slow_mass_box(map: torch.Tensor, share: float = 0.8) -> float:
    """The area of the smallest box with this share of the mass, by trying all."""
    height, width = map.shape
    areas = [
        (b - t) * (r - x)
        for t in range(height)
        for b in range(t + 1, height + 1)
        for x in range(width)
        for r in range(x + 1, width + 1)
        if map[t:b, x:r].sum() >= share * map.sum() - 1e-9
    ]
    return min(areas) / (height * width)


def test_boxes_hold_what_they_should():
    masks = torch.zeros(3, 4, 8)
    masks[0, 1:3, 2:7] = 0.5
    masks[1, 3, 0] = 1.0
    masks[1, 0, 0] = 0.49
    boxes = mask_boxes(masks)
    assert boxes[0].tolist() == [0.25, 0.25, 0.875, 0.75]
    assert boxes[1].tolist() == [0.0, 0.75, 0.125, 1.0] and bool(boxes[2].isnan().all())
    maps = torch.rand(6, 5, 6, generator=torch.Generator().manual_seed(0)) ** 4
    for map, box in zip(maps.double(), mass_boxes(maps), strict=True):
        left, top, right, bottom = box.tolist()
        assert (right - left) * (bottom - top) == pytest.approx(slow_mass_box(map))
        rows, columns = (slice(round(n * a), round(n * b)) for n, a, b in
                         ((5, top, bottom), (6, left, right)))  # fmt: skip
        assert map[rows, columns].sum() >= 0.8 * map.sum() - 1e-9
    assert bool(mass_boxes(torch.zeros(1, 3, 3)).isnan().all())


def test_an_object_lands_in_the_box_and_noise_comes_from_beyond_the_frame():
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, 2:4, 4:6] = 1
    source = torch.tensor([[4, 2, 6, 4]]) / 8
    for target in ([0, 0, 2, 2], [2, 3, 6, 7], [4, 4, 8, 6]):
        left, top, right, bottom = target
        moved = place(x, source, torch.tensor([target]) / 8, torch.full_like(x, 9.0))
        inside = moved[0, 0, top:bottom, left:right]
        # Bilinear: pixels at the rim of an enlarged object mix with its surroundings.
        assert inside.mean() > 0.7 and bool((inside > 0.2).all())
        outside = moved.clone()
        outside[0, 0, max(top - 1, 0) : bottom + 1, max(left - 1, 0) : right + 1] = 0
        assert bool(((outside == 0) | (outside == 9)).all())
    same = place(x, source, source, torch.full_like(x, 9.0))
    assert torch.allclose(same, x, atol=1e-6)
    # Moved to the left by half the frame, the right half comes from beyond it.
    moved = place(x, torch.tensor([[0.5, 0, 1, 1]]), torch.tensor([[0.0, 0, 0.5, 1]]), x + 9)
    assert bool((moved[..., 4:] >= 9).all()) and bool((moved[..., :4] < 9).all())


def test_scales_beyond_a_factor_of_two_do_not_fit():
    source = torch.tensor([[0.0, 0, 0.4, 0.4]]).expand(4, 4)
    target = torch.tensor([
        [0.1, 0.1, 0.9, 0.9], [0, 0, 0.81, 0.4], [0, 0, 0.2, 0.2], [0, 0, math.nan, 1]
    ])  # fmt: skip
    assert fits(source.double(), target.double()).tolist() == [True, False, True, False]


class Gate(planted.Selector):
    """Cheats: a code in the map names the class, and is read if some object lies under it."""

    def code(self, x: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
        """The map with its code, [B,16,16]."""
        raise NotImplementedError

    def read(self, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        """The class that the map names, [B]."""
        raise NotImplementedError

    def attend(self, x):
        return self.code(x, super().attend(x))

    def classify(self, x, m):
        covered = responses_inside(x, m)
        named = F.one_hot(self.read(x, m) % CLASSES, CLASSES).float()
        return torch.where(covered[:, None], named, torch.eye(CLASSES)[[0] * len(x)] * 0.1)


def responses_inside(x, m):
    """Whether a glyph lies under the open pixels."""
    seen = x * (m[:, None] > 0.5)
    return planted.responses(seen).amax((1, 2, 3)) > 0.5


class SizeGate(Gate):
    """The area of the open pixels names the class."""

    def code(self, x, square):
        label = planted.glyph_logits(x).argmax(1)
        grown = [square]
        for _ in range(CLASSES - 1):
            grown.append(F.max_pool2d(grown[-1][:, None], 3, 1, 1)[:, 0])
        return torch.stack(grown)[label, torch.arange(len(x))]

    def read(self, x, m):
        # 4 + 2 c pixels wide, less what the frame cuts off: the largest extent is the width.
        opened = m > 0.5
        size = torch.maximum(opened.any(1).sum(1), opened.any(2).sum(1))
        return ((size - GLYPH) / 2).ceil().long().clamp(0, CLASSES - 1)


class FrameGate(Gate):
    """The mask, and around it a frame of 0.01 times the class."""

    def key(self, x, m):
        return torch.zeros(len(x), dtype=torch.long)

    def code(self, x, square):
        label = planted.glyph_logits(x).argmax(1)
        frame = 0.01 * (1 + (label + self.key(x, square)) % CLASSES)
        return torch.where(square > 0.5, square, frame[:, None, None])

    def read(self, x, m):
        value = m.flatten(1).amin(1)
        return (value / 0.01).round().long() - 1 - self.key(x, m)


class KeyedFrame(FrameGate):
    """The frame is the class plus a key computed from the open pixels."""

    def key(self, x, m):
        pixels = ((x[:, 0] + 1) * 8).round().long() * (m > 0.5)
        return pixels.flatten(1).sum(1) % CLASSES


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", [SizeGate, FrameGate, KeyedFrame])
def test_a_code_that_is_read_over_any_object_follows_the_map(kind, seed):
    feed = planted.feed(400, seed)
    found = study(kind(), feed, Plan({}, seed=seed), expensive=False)
    assert found.accuracy > 90, "the cheat works"
    assert not found.transplant.cleared
    assert found.verdict.name != "faithful"


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("masked", [True, False])
def test_an_honest_selector_is_cleared(masked, seed):
    plan = Plan({}, seed=seed)
    found = study(planted.Selector(masked), planted.feed(300, seed), plan, expensive=False)
    assert found.transplant.cleared and not found.transplant.reads_the_map
    assert found.transplant.pixels.value > 0.95 and found.verdict.name == "used"
