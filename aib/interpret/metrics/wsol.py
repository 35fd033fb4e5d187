"""Localisation as in weakly supervised object localisation: maps that are cut at a threshold.

The definitions are those of Choe et al., "Evaluating Weakly Supervised Object Localization Methods
Right" (CVPR 2020, github.com/clovaai/wsolevaluation): maps at the size of the image, scaled to
[0,1] per image (a flat map is 0 everywhere), and thresholds 0, 0.01, ..., 0.99.

- MaxBoxAccV2: the share of images where the box around some component of {score > threshold} has
  an IoU of at least 0.3, 0.5 or 0.7 with a box of the object, at the best threshold of each IoU,
  averaged over the three.
- PxAP: area under the precision-recall curve of {score >= threshold} over the pixels of all images.
- Mask IoU: mean over images of the IoU of {score >= threshold} and the mask, at the best threshold.
- Of salient object detection: the maximal F-measure (beta^2 = 0.3), likewise a mean over images at
  the best threshold; and the mean absolute error, |score - mask| averaged over the pixels.

Their code differs in some details: a component is measured by the area of its contour, scores are
rounded to 8 bits and enlarged bicubically, and both sides of a box count as inside.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from aib.data.objects import object_and_counted
from aib.evaluation.intervals import Estimate, defined_means, finite_or_none, interval
from aib.interpret.metrics.components import connected_components
from aib.interpret.metrics.similarity import scaled_maps

STEPS = 100  # thresholds in [0, 1)
IOUS = (0.3, 0.5, 0.7)
BETA2 = 0.3  # weight of recall in the F-measure, as published
_CHUNK = 2**24  # pixels of all thresholds whose components are found at once


def cut_maps(
    maps: Tensor, objects: Tensor, boxes: Tensor | None = None, outlines: bool = True
) -> dict[str, Tensor]:
    """What `cut_estimates` needs of maps [B,h,w] with masks [B,H,W], [B,...] each.

    `boxes` and `outlines` as in `Localisation`.
    """
    scores = scaled_maps(maps, (objects.shape[1], objects.shape[2]))
    tables = {"ious": box_ious(scores, object_boxes(objects) if boxes is None else boxes)}
    if outlines:
        tables["inside"], tables["outside"] = score_histograms(scores, objects)
        inside, counted = object_and_counted(objects)
        wrong = (scores.double() - inside.double()).abs() * counted
        tables["mae"] = wrong.sum((1, 2)) / counted.sum((1, 2))  # NaN where nothing counts
    return {name: table.float() for name, table in tables.items()}


def cut_estimates(tables: Mapping[str, Tensor], *, seed: int = 0) -> dict[str, Estimate]:
    """MaxBoxAccV2 and its parts ("at IOU"), PxAP and mask IoU, with bootstrap intervals.

    Images without a box or without any object pixel are left out. The intervals of values at the
    best threshold hold that threshold fixed.
    """
    ious = tables["ious"]  # [N,STEPS]
    # In float32 an IoU of exactly 0.7 is below 0.7.
    correct = [(ious > least - 1e-6).double().where(~ious.isnan(), torch.nan) for least in IOUS]
    best = [_best(values) for values in correct]
    columns = {"max_box_acc": _at(correct, best)}
    columns |= {f"at {iou:g}": _at([v], [c]) for iou, v, c in zip(IOUS, correct, best, strict=True)}
    if "inside" in tables:
        for name, of_masks in _mask_scores(tables).items():
            columns[name] = _at([of_masks], [_best(of_masks)])
        columns["mae"] = tables["mae"]
    found = defined_means(columns, seed=seed)
    return found | ({"pxap": _pxap(tables, seed)} if "inside" in tables else {})


def _mask_scores(tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """IoU and F-measure, [N,STEPS+1] each; NaN without an object."""
    found, wrong = (_at_least(tables[name]) for name in ("inside", "outside"))
    # At threshold 0 everything is found, so found[:, 0] are all object pixels.
    pixels = found[:, :1].masked_fill(found[:, :1] == 0, torch.nan)
    f = (1 + BETA2) * found / (BETA2 * pixels + found + wrong)
    return {"mask_iou": found / (pixels + wrong), "max_f": f}


def _pxap(tables: Mapping[str, Tensor], seed: int) -> Estimate:
    parts = [tables["inside"], tables["outside"]]  # [N,STEPS+1] each
    counts = torch.cat(parts, dim=1) * (parts[0].sum(dim=1, keepdim=True) > 0)
    ends = interval(counts, average_precision, resamples=1000, seed=seed)
    value, low, high = map(finite_or_none, (average_precision(counts.sum(dim=0)), *ends))
    return Estimate(value, low, high)


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
