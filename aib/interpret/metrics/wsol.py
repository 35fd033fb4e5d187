"""Localisation as in weakly supervised object localisation: maps that are cut at a threshold.

The definitions are those of Choe et al., "Evaluating Weakly Supervised Object Localization Methods
Right" (CVPR 2020, github.com/clovaai/wsolevaluation): maps at the size of the image, scaled to
[0,1] per image (a flat map is 0 everywhere), and thresholds 0, 0.01, ..., 0.99.

- MaxBoxAccV2: the share of images where the box around some component of {score > threshold} has
  an IoU of at least 0.3, 0.5 or 0.7 with a box of the object, at the best threshold of each IoU,
  averaged over the three.
- PxAP: area under the precision-recall curve of {score >= threshold} over the pixels of all images.
- Mask IoU: mean over images of the IoU of {score >= threshold} and the mask, at the best threshold.

Their code differs in some details: a component is measured by the area of its contour, scores are
rounded to 8 bits and enlarged bicubically, and both sides of a box count as inside.
"""

from typing import Any

import torch
from torch import Tensor

from aib.data.objects import object_and_counted
from aib.evaluation.intervals import interval
from aib.interpret.metrics.checks import check_objects
from aib.interpret.metrics.components import connected_components
from aib.interpret.metrics.metric import BootstrapMetric
from aib.interpret.metrics.similarity import scaled_maps

STEPS = 100  # thresholds in [0, 1)
IOUS = (0.3, 0.5, 0.7)
_CHUNK = 2**24  # pixels of all thresholds whose components are found at once


class WSOL(BootstrapMetric):
    """MaxBoxAccV2, PxAP and mask IoU.

    `compute` returns scalar tensors by name, each with `_low` and `_high` (bootstrap over images):
    `max_box_acc`, `max_box_acc_at_0.3` (0.5, 0.7), `pxap` and `mask_iou`. `max_box_acc_undefined`
    counts the images without a box; they are left out, and images without any object pixel from
    PxAP and mask IoU. The intervals of values at the best threshold hold that threshold fixed.

    `objects=False`: the masks are filled boxes, so PxAP and mask IoU are undefined and left out.
    """

    def __init__(self, *, objects: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.objects = objects
        for name in ("ious", *(("inside", "outside") if objects else ())):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, maps: Tensor, objects: Tensor, boxes: Tensor | None = None) -> None:
        """Add maps [B,h,w] with masks [B,H,W] (bool, or integers with 255 for ignored pixels).

        `boxes` [B,4] or [B,n,4] are the objects' boxes in pixels, clipped to the image; NaN pads
        images with fewer. By default one box around each mask. An image may have a box and no mask.
        """
        check_objects(objects, len(maps))
        scores = scaled_maps(maps, (objects.shape[1], objects.shape[2]))
        tables = {"ious": box_ious(scores, object_boxes(objects) if boxes is None else boxes)}
        if self.objects:
            tables["inside"], tables["outside"] = score_histograms(scores, objects)
        for name, table in tables.items():  # flat: a process without images has an empty list
            getattr(self, name).append(table.flatten().float())
        self.count_broken(scores)

    def compute(self) -> dict[str, Tensor]:
        """The values named above."""
        correct = self._correct()
        best = [_best(values) for values in correct]
        columns = {
            "max_box_acc": _at(correct, best),
            **{
                f"max_box_acc_at_{iou:g}": _at([values], [cut])
                for iou, values, cut in zip(IOUS, correct, best, strict=True)
            },
        }
        pooled: dict[str, Tensor] = {}
        if self.objects:
            ious = self._mask_ious()
            columns["mask_iou"] = _at([ious], [_best(ious)])
            pooled = self._pxap()
        found = self.ratios(
            {name: (v.nan_to_num(), (~v.isnan()).double()) for name, v in columns.items()}
        )
        undefined = columns["max_box_acc"].isnan().sum()
        return found | pooled | {"max_box_acc_undefined": undefined}

    def _correct(self) -> list[Tensor]:
        """[N,STEPS] for each of IOUS."""
        ious = self.per_image("ious").reshape(-1, STEPS)
        defined = ~ious.isnan()
        # In float32 an IoU of exactly 0.7 is below 0.7.
        return [(ious > least - 1e-6).double().where(defined, torch.nan) for least in IOUS]

    def _counts(self, name: str) -> Tensor:
        return self.per_image(name).reshape(-1, STEPS + 1)

    def _mask_ious(self) -> Tensor:
        """[N,STEPS+1]; NaN without an object."""
        found, wrong = (_at_least(self._counts(name)) for name in ("inside", "outside"))
        # At threshold 0 everything is found, so found[:, 0] are all object pixels.
        return found / (found[:, :1] + wrong).masked_fill(found[:, :1] == 0, torch.nan)

    def _pxap(self) -> dict[str, Tensor]:
        parts = [self._counts("inside"), self._counts("outside")]  # [N,STEPS+1] each
        counts = torch.cat(parts, dim=1) * (parts[0].sum(dim=1, keepdim=True) > 0)
        value = average_precision(counts.sum(dim=0))
        low, high = interval(counts, average_precision, resamples=self.resamples, seed=self.seed)
        return {"pxap": value, "pxap_low": low, "pxap_high": high}


def object_boxes(objects: Tensor) -> Tensor:
    """The box around each mask's object pixels, [B,4]; NaN without any."""
    inside, _ = object_and_counted(objects)
    edges = []
    for axis in (1, 2):  # down a column or along a row
        line = inside.any(dim=axis).long()  # [B,side]
        edges.append((line.argmax(dim=1), line.shape[1] - line.flip(1).argmax(dim=1)))
    (left, right), (top, bottom) = edges
    boxes = torch.stack([left, top, right, bottom], dim=1).double()
    return boxes.masked_fill(~inside.flatten(1).any(dim=1)[:, None], torch.nan)


def box_ious(scores: Tensor, boxes: Tensor) -> Tensor:
    """Best IoU of a box of the map's components with one of the object's boxes, [B,STEPS].

    NaN for an image without a box of positive area, after clipping.
    `scores` [B,H,W] are in [0,1]; `boxes` [B,4] or [B,n,4] in pixels are clipped to the image.
    """
    batch, height, width = scores.shape
    limit = torch.tensor([width, height, width, height], device=scores.device).double()
    target = boxes.double().to(scores.device).reshape(batch, -1, 4).clamp_min(0).minimum(limit)
    none = ~(target[..., 2:] > target[..., :2]).all(dim=-1).any(dim=1, keepdim=True)  # [B,1]
    steps = torch.arange(STEPS, device=scores.device)
    # How many thresholds lie below each score: it is foreground at these.
    below = torch.bucketize(scores.double(), steps.double() / STEPS)  # [B,H,W]
    parts = max(1, _CHUNK // (STEPS * height * width))
    found = [
        _ious(part[:, None] > steps[:, None, None], truth)
        for part, truth in zip(below.split(parts), target.split(parts), strict=True)
    ]
    return torch.cat(found).masked_fill(none, torch.nan)


def _ious(foreground: Tensor, target: Tensor) -> Tensor:
    """`box_ious` for foreground [B,STEPS,H,W] and boxes [B,n,4]."""
    size = foreground.shape[:2]
    found = connected_components(foreground.flatten(0, 1))
    fits = _box_iou(found.boxes[:, None].double(), target[found.image // STEPS]).amax(dim=1)
    best = fits.new_zeros(size.numel()).scatter_reduce_(0, found.image, fits, "amax")
    return best.reshape(size)


def _box_iou(first: Tensor, second: Tensor) -> Tensor:
    """IoU of boxes [...,4] that broadcast; 0 for boxes of NaN."""
    low = torch.maximum(first[..., :2], second[..., :2])
    high = torch.minimum(first[..., 2:], second[..., 2:])
    shared = (high - low).clamp_min(0).prod(dim=-1)
    areas = [(box[..., 2:] - box[..., :2]).prod(dim=-1) for box in (first, second)]
    return (shared / (areas[0] + areas[1] - shared)).nan_to_num()


def score_histograms(scores: Tensor, objects: Tensor) -> tuple[Tensor, Tensor]:
    """Number of object and of background pixels in each bin of scores, [B,STEPS+1] each.

    Bin i holds threshold i <= score < threshold i + 1; the last one holds the score 1.
    """
    inside, counted = object_and_counted(objects)
    edges = torch.arange(STEPS + 1, device=scores.device).double() / STEPS
    bins = torch.bucketize(scores.double(), edges, right=True).flatten(1) - 1  # [B,H*W]
    bins = bins.clamp_min(0)  # of NaN: reported in compute
    none = torch.zeros(len(scores), STEPS + 1, dtype=torch.long, device=scores.device)
    of_object = none.scatter_add(1, bins, inside.flatten(1).long())
    return of_object, none.scatter_add(1, bins, (counted & ~inside).flatten(1).long())


def average_precision(counts: Tensor) -> Tensor:
    """Area under the precision-recall curve for histograms [...,2*(STEPS+1)]: objects, then not."""
    found, wrong = (_at_least(part).flip(-1) for part in counts.double().chunk(2, dim=-1))
    recall = found / found[..., -1:]
    gained = recall.diff(dim=-1, prepend=torch.zeros_like(recall[..., :1]))
    precision = (found / (found + wrong)).nan_to_num()  # nothing found: no recall gained either
    return (precision * gained).sum(dim=-1)


def _at_least(histogram: Tensor) -> Tensor:
    """Counts of scores at or above each threshold."""
    return histogram.flip(-1).cumsum(-1).flip(-1)


def _best(values: Tensor) -> int:
    """The threshold with the highest mean over images [N,T]; the lowest one of several."""
    return int(values.nanmean(dim=0).nan_to_num().argmax())


def _at(values: list[Tensor], thresholds: list[int]) -> Tensor:
    """Mean over the tables [N,T] of each one's column at its threshold, [N]."""
    columns = [table[:, cut] for table, cut in zip(values, thresholds, strict=True)]
    return torch.stack(columns).mean(dim=0)
