"""Transplant: the map of image A over the object of image B.

A map may hold a code for the class that the classifier reads only where some object lies under it:
with a foreign map such a model fails like an honest one. So an object is put under the foreign
map. B, predicted as another class than A, is resampled by a shift and a scale per axis until the
box of its own map fits the box of A's. An honest model now says B, a code in the map says A.

Around the box of a mask lies the rest of B, closed for the most part. Around that of any other map
lies an unrelated image D: a model that reads what its map does not mark now says D.

Two controls say what the resampling costs (B under its own resampled map), and what a foreign
outline costs (B under the map of a third image C of B's predicted class, fitted to the same box).
Chance is how often the prediction is D's.

The exact form needs masks of the objects. B's object is cut out, fitted into the box of A's object,
and put on the background of D, filled where D's object was. A code in the place of the object
inside its map's box survives the first form and not this one.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.data.objects import boxes_to_objects, object_and_counted
from aib.evaluation.intervals import mean_estimates
from aib.figures.table import Table, table_of
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measured import Followed, Transplant
from aib.interpret.metrics.columns import RandomChoice
from aib.interpret.metrics.fill import fill_hole
from aib.interpret.metrics.seeded import Stream, normal
from aib.interpret.metrics.swap import draw_partners
from aib.interpret.results import Study
from aib.models.masked import Masked, mask_of

OPEN = 0.5  # of a mask's maximum: its box holds the pixels from here on
MASS = 0.8  # of a map that is no mask: its box holds this share
SCALES = 0.5, 2.0  # of an object, per axis; others are skipped
DRAWS = 4  # of partners, until one fits
ENOUGH = 100  # pairs; fewer say nothing
BATCH = 64


def mask_boxes(masks: Tensor) -> Tensor:
    """The box [B,4] (left, top, right, bottom, from 0 to 1) of each mask's open pixels.

    NaN where a mask opens none. Half of the maximum is open, so that faint masks have boxes, too.
    """
    opened = (masks >= OPEN * masks.amax((1, 2), keepdim=True)) & (masks > 0)
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
        self.choice = RandomChoice(context.seed, Stream.TRANSPLANT)

    def update(self, view: View) -> None:
        found = view.explanation
        assert found.map is not None
        new = {
            "index": view.batch.index,
            "pixels": view.batch.images,
            "maps": found.map,
            "own": found.prediction,
        }
        if "outlines" in self.context.has:
            assert view.batch.objects is not None
            new["objects"] = view.batch.objects
        self.choice.add(**new)

    def _maps(self, i: Tensor) -> Tensor:
        """The maps of positions i: a masked model's mask [B,H,W], or the applied map [B,h,w]."""
        model, maps = self.context.model, self.stored["maps"][i]
        if not isinstance(model, Masked):
            return maps
        return mask_of(maps, self.stored["pixels"].shape[2:])

    def _predict(self, x: Tensor, maps: Tensor) -> Tensor:
        given = {"mask" if isinstance(self.context.model, Masked) else "attention_map": maps}
        return self.context.model(x, deterministic=True, **given).logits.argmax(1)

    @cached_property
    def stored(self) -> dict[str, Tensor]:
        """The chosen images, after all were seen."""
        return self.choice.whole()

    @torch.no_grad()
    def fields(self) -> dict[str, Any]:
        find = mask_boxes if isinstance(self.context.model, Masked) else mass_boxes
        everything = torch.arange(len(self.stored["own"]), device=self.stored["own"].device)
        boxes = torch.cat([find(self._maps(i)) for i in everything.split(BATCH)])
        found = Transplant(self._follow(boxes, exact=False))
        if "objects" in self.stored:
            boxes = mask_boxes(object_and_counted(self.stored["objects"])[0].float())
            found = replace(found, objects=self._follow(boxes, exact=True))
        return {"transplant": found}

    def _follow(self, boxes: Tensor, exact: bool) -> Followed:
        """One form of the transplant."""
        chosen = self._quadruples(boxes)
        pairs = chosen.shape[1]
        skipped = len(boxes) - pairs
        if pairs < ENOUGH:
            return Followed(pairs, skipped)
        parts = chosen.split(self.context.batch_size, dim=1)
        rows = [self._decide(boxes, part, exact=exact) for part in parts]
        columns = {name: torch.cat([row[name] for row in rows]).double() for name in rows[0]}
        estimates = mean_estimates(torch.stack([*columns.values()], 1), seed=self.context.seed)
        return Followed(pairs, skipped, **dict(zip(columns, estimates, strict=True)))

    def _quadruples(self, boxes: Tensor) -> Tensor:
        """Positions a, b, c, d as [4,P]; each image is an `a` once, or never where nothing fits.

        c is of b's predicted class, a and d are of others.
        """
        own, index = self.stored["own"], self.stored["index"]
        chosen = torch.full((4, len(own)), -1, device=own.device)
        for draw in range(DRAWS):
            partners = draw_partners(index, own, seed=self.context.seed + draw)
            b = partners.other_class
            c = partners.same_class[b]
            new = torch.stack([torch.arange(len(own)).to(b), b, c, partners.other_class[c]])
            fit = (b >= 0) & (c >= 0) & fits(boxes[b], boxes) & fits(boxes[c], boxes)
            chosen = torch.where(fit & (chosen[0] < 0), new, chosen)
        return chosen[:, chosen[0] >= 0]

    def _decide(self, boxes: Tensor, part: Tensor, exact: bool) -> dict[str, Tensor]:
        """What the predictions under the maps of A, B and C are: bool [P] by name.

        part: positions a, b, c, d as [4,P].
        """
        a, b, c, d = part
        self.context.tick(self.title, len(a) / (1 + ("objects" in self.stored)))  # of both forms
        own, target = self.stored["own"], boxes[a]
        x = (self._composed if exact else self._resampled)(boxes, a, b, d)
        under_a = self._predict(x, self._maps(a))
        under_c = self._predict(x, _place_map(self._maps(c), boxes[c], target))
        found = {
            "pixels": under_a == own[b],
            "map": under_a == own[a],
            "chance": under_a == own[d],
            "foreign_map": under_c == own[b],
        }
        if not exact:
            under_b = self._predict(x, _place_map(self._maps(b), boxes[b], target))
            found["own_map"] = under_b == own[b]
        return found

    def _pixels(self, i: Tensor) -> Tensor:
        return self.context.model.preprocessing.normalise(self.stored["pixels"][i])

    def _resampled(self, boxes: Tensor, a: Tensor, b: Tensor, d: Tensor) -> Tensor:
        """B, resampled so that its box is A's; around it D, unless a mask closes it."""
        model, x, target = self.context.model, self._pixels(b), boxes[a]
        if not isinstance(model, Masked):
            height, width = x.shape[2:]
            sides = torch.tensor([width, height, width, height]).to(target)
            inside = boxes_to_objects(target * sides, (height, width))[:, None]
            surroundings = self._pixels(d)
            return place(x, boxes[b], target, surroundings).where(inside, surroundings)
        index = self.stored["index"][a]
        noise = normal(self.context.seed, Stream.TRANSPLANT_NOISE, index, x[0].numel())
        return place(x, boxes[b], target, model.noise_std * noise.view_as(x))

    def _composed(self, boxes: Tensor, a: Tensor, b: Tensor, d: Tensor) -> Tensor:
        """B's object in the box of A's object, on D's background."""
        objects = self.stored["objects"]
        background = fill_hole(self._pixels(d), objects[d] != 0)
        cut = object_and_counted(objects[b])[0][:, None].float()
        alpha = place(cut, boxes[b], boxes[a], torch.zeros_like(cut))
        moved = place(self._pixels(b), boxes[b], boxes[a], background)
        return alpha * moved + (1 - alpha) * background

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        rows = []
        for label, study in studies.items():
            if (found := study.transplant) is None:
                continue
            for name, form in found.forms.items():
                rows.append(
                    {
                        "run": label,
                        "form": name,
                        "pairs": f"{form.pairs:,}",
                        "follow the pixels %": form.pixels.format(times=100),
                        "follow the map %": form.map.format(times=100),
                        "chance %": form.chance.format(times=100),
                        "control: own map %": form.own_map.format(times=100),
                        "control: map of the same class %": form.foreign_map.format(times=100),
                        "cleared": "yes" if found.cleared else "no",
                    }
                )
        note = (
            "The object of one image is put under the map of an image of another class: resampled "
            "to fit the box of the map, or, where the objects have masks, cut out and put on the "
            "filled background of a third image. Chance: the prediction is the class of this or of "
            "another unrelated image. Controls: the same object under its own map, and under the "
            "fitted map of another image of its class. With fewer than "
            f"{ENOUGH} pairs nothing is reported."
        )
        return [table_of("Does the decision follow the pixels or the map?", rows, note)]
