"""Transplant: the map of image A over the object of image B.

A map may hold a code for the class that the classifier reads only where some object lies under it:
with a foreign map such a model fails like an honest one. So an object is put under the foreign
map. B, predicted as another class than A, is resampled by a shift and a scale per axis until the
box of its own map fits the box of A's. An honest model now says B, a code in the map says A.

Two controls say what the resampling costs (B under its own resampled map), and what a foreign
outline costs (B under the map of a third image C of B's predicted class, fitted to the same box).
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.evaluation.intervals import mean_estimates
from aib.figures.table import Table, table_of
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measured import Transplant
from aib.interpret.metrics.seeded import Stream, random_words
from aib.interpret.metrics.swap import draw_partners
from aib.interpret.results import Study
from aib.models.masked import Masked, mask_of

OPEN = 0.5  # of a mask: its box holds the pixels from here on
MASS = 0.8  # of a map that is no mask: its box holds this share
SCALES = 0.5, 2.0  # of an object, per axis; others are skipped
ENOUGH = 100  # pairs; fewer say nothing
IMAGES = 2048  # of a random choice at most: their pixels stay in memory
BATCH = 64


def mask_boxes(masks: Tensor) -> Tensor:
    """The box [B,4] (left, top, right, bottom, from 0 to 1) of each mask's open pixels.

    NaN where a mask opens none.
    """
    opened = masks >= OPEN
    ends = [_ends(opened.any(dim)) for dim in (1, 2)]  # of columns, of rows: [B,2] each
    return torch.stack([ends[0][:, 0], ends[1][:, 0], ends[0][:, 1], ends[1][:, 1]], dim=1)


def _ends(line: Tensor) -> Tensor:
    """Where the first and the last True of each row [B,n] begin and end, from 0 to 1."""
    count = line.shape[1]
    at = torch.arange(count, device=line.device).expand_as(line)
    low = at.masked_fill(~line, count).amin(1)
    high = (at + 1).masked_fill(~line, 0).amax(1)
    ends = torch.stack([low, high], dim=1).double() / count
    return ends.masked_fill(~line.any(1, keepdim=True), torch.nan)


def mass_boxes(maps: Tensor) -> Tensor:
    """The smallest box [B,4] with 80% of each map's positive mass; NaN where there is none."""
    height, width = maps.shape[1:]
    top, bottom = torch.triu_indices(height + 1, height + 1, 1, device=maps.device)
    left, right = torch.triu_indices(width + 1, width + 1, 1, device=maps.device)
    area = (bottom - top)[:, None] * (right - left)  # [boxes by rows, boxes by columns]
    boxes = []
    for one in maps.double().clamp_min(0):
        sums = F.pad(one.cumsum(0).cumsum(1), (1, 0, 1, 0))  # mass above and left
        rows = sums[bottom] - sums[top]
        mass = rows[:, right] - rows[:, left]
        fits = (mass >= MASS * sums[-1, -1] * (1 - 1e-9)) & (sums[-1, -1] > 0)
        row, column = divmod(int(area.masked_fill(~fits, height * width + 1).argmin()), len(left))
        ends = [left[column] / width, top[row] / height, right[column] / width]
        box = torch.stack([*ends, bottom[row] / height])
        boxes.append(box.where(sums[-1, -1] > 0, torch.nan))
    return torch.stack(boxes).double()


def fits(source: Tensor, target: Tensor) -> Tensor:
    """Whether an object in box `source` [B,4] can be moved into `target` [B,4]: bool [B]."""
    scale = (target[:, 2:] - target[:, :2]) / (source[:, 2:] - source[:, :2])
    return ((scale >= SCALES[0]) & (scale <= SCALES[1])).all(1)  # False for NaN


def place(values: Tensor, source: Tensor, target: Tensor, outside: Tensor) -> Tensor:
    """Resample [B,C,H,W] so that what lies in box `source` lies in `target`.

    What comes from beyond the frame is `outside` [B,C,H,W].
    """
    scale = (source[:, 2:] - source[:, :2]) / (target[:, 2:] - target[:, :2])  # [B,2]
    # At p the result has what the input has at source + scale (p - target), p from 0 to 1;
    # `affine_grid` counts from -1 to 1.
    shift = 2 * (source[:, :2] - scale * target[:, :2]) + scale - 1
    theta = torch.cat([torch.diag_embed(scale), shift[:, :, None]], dim=2).to(values)  # [B,2,3]
    grid = F.affine_grid(theta, list(values.shape), align_corners=False)
    moved = F.grid_sample(values, grid, padding_mode="border", align_corners=False)
    inside = (grid.abs() <= 1).all(-1)[:, None]
    return torch.where(inside, moved, outside)


def _place_map(maps: Tensor, source: Tensor, target: Tensor) -> Tensor:
    one = maps[:, None]
    return place(one, source, target, torch.zeros_like(one))[:, 0].clamp(0, 1)


class TransplantMeasure(Measure):
    """Transplants among a random choice of the images."""

    title = "transplant"
    needs = frozenset({"takes_map"})
    stores = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.stored: dict[str, Tensor] = {}

    def update(self, view: View) -> None:
        """Store a batch's pixels, maps and decisions."""
        found, index = view.explanation, view.batch.index
        assert found.map is not None
        new = {
            "word": random_words(self.context.seed, Stream.TRANSPLANT, index, 1)[:, 0],
            "index": index,
            "pixels": view.batch.images,
            "maps": found.map,
            "own": found.prediction,
        }
        if self.stored:
            new = {name: torch.cat([values, new[name]]) for name, values in self.stored.items()}
        if len(new["word"]) > 2 * IMAGES:
            new = self._chosen(new)
        self.stored = new

    @staticmethod
    def _chosen(stored: dict[str, Tensor]) -> dict[str, Tensor]:
        """The images of the lowest random words."""
        keep = stored["word"].argsort()[:IMAGES].sort().values
        return {name: values[keep] for name, values in stored.items()}

    def _maps(self, i: Tensor) -> Tensor:
        """The maps of positions i: a masked model's mask [B,H,W], or the applied map [B,h,w]."""
        model, maps = self.context.model, self.stored["maps"][i]
        if not isinstance(model, Masked):
            return maps
        return mask_of(maps, self.stored["pixels"].shape[2:])

    def _predict(self, x: Tensor, maps: Tensor) -> Tensor:
        given = {"mask" if isinstance(self.context.model, Masked) else "attention_map": maps}
        return self.context.model(x, deterministic=True, **given).logits.argmax(1)

    @torch.no_grad()
    def fields(self) -> dict[str, Any]:
        """`transplant`."""
        model, self.stored = self.context.model, self._chosen(self.stored)
        own, index = self.stored["own"], self.stored["index"]
        find = mask_boxes if isinstance(model, Masked) else mass_boxes
        everything = torch.arange(len(own), device=own.device)
        boxes = torch.cat([find(self._maps(i)) for i in everything.split(BATCH)])
        partners = draw_partners(index, own, seed=self.context.seed)
        b = partners.other_class
        c, d = partners.same_class[b], partners.another[b]
        usable = (b >= 0) & (c >= 0) & fits(boxes[b], boxes) & fits(boxes[c], boxes)
        a, b, c, d = (one[usable] for one in (everything, b, c, d))
        pairs, skipped = len(a), len(own) - len(a)
        if pairs < ENOUGH:
            return {"transplant": Transplant(pairs, skipped)}
        parts = zip(*(one.split(BATCH) for one in (a, b, c, d)), strict=True)
        rows = [self._decide(boxes, n * BATCH, *part) for n, part in enumerate(parts)]
        estimates = mean_estimates(torch.cat(rows).double(), seed=self.context.seed)
        return {"transplant": Transplant(pairs, skipped, *estimates)}

    def _decide(
        self, boxes: Tensor, first: int, a: Tensor, b: Tensor, c: Tensor, d: Tensor
    ) -> Tensor:
        """Whether the prediction is B's, A's and D's under A's map, and B's in both controls."""
        self.context.tick(self.title, len(a))
        model, own, target = self.context.model, self.stored["own"], boxes[a]
        x = model.preprocessing.normalise(self.stored["pixels"][b])
        generator = torch.Generator().manual_seed(self.context.seed + first)
        noise = torch.randn(x.shape, generator=generator).to(x)
        x = place(x, boxes[b], target, getattr(model, "noise_std", 1.0) * noise)
        found = self._predict(x, self._maps(a))
        followed = [found == own[k] for k in (b, a, d)]
        for k in (b, c):
            fitted = _place_map(self._maps(k), boxes[k], target)
            followed.append(self._predict(x, fitted) == own[b])
        return torch.stack(followed, dim=1)

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """What the decision follows, beside both controls."""
        rows = []
        for label, study in studies.items():
            found = study.transplant
            if found is None or not (found.pixels and found.map and found.chance):
                continue
            assert found.own_map and found.foreign_map
            shares = {
                "follow the pixels %": found.pixels,
                "follow the map %": found.map,
                "chance %": found.chance,
                "control: own map %": found.own_map,
                "control: map of the same class %": found.foreign_map,
            }
            rows.append(
                {
                    "run": label,
                    "pairs": f"{found.pairs:,.0f}",
                    **{name: one.format(times=100) for name, one in shares.items()},
                    "cleared": "yes" if found.cleared else "no",
                }
            )
        note = (
            "The object of one image is resampled to fit under the map of an image of another "
            "class. Chance: the prediction is the class of an unrelated image. Controls: the "
            "resampled object under its own map, and under the fitted map of another image of its "
            f"class. With fewer than {ENOUGH} pairs nothing is reported."
        )
        return [table_of("Does the decision follow the pixels or the map?", rows, note)]
