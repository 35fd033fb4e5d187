"""Similarity of two maps of the same image, their scaling, and AUROC."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.figures.overlay import FLAT
from aib.interpret.metrics.checks import check_maps, resize_maps


class ScaledMaps(NamedTuple):
    values: Tensor  # [B,h*w], in [0,1] unless flat
    contrast: Tensor  # [B], max - min before scaling
    flat: Tensor  # [B], bool


def min_max(maps: Tensor) -> ScaledMaps:
    """Flatten maps [B,h,w] and scale each to [0,1]; flat ones keep their values."""
    check_maps(maps)
    values = maps.flatten(1).float()
    least, most = values.aminmax(dim=1, keepdim=True)
    contrast = most - least  # [B,1]
    flat = contrast < FLAT
    values = torch.where(flat, values, (values - least) / contrast.clamp_min(FLAT))
    return ScaledMaps(values, contrast[:, 0], flat[:, 0])


def scaled_maps(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Maps [B,h,w] bilinearly to [B,H,W], then each to [0,1]; a flat map to 0."""
    scaled = min_max(resize_maps(maps, size))
    return scaled.values.masked_fill(scaled.flat[:, None], 0).reshape(-1, *size)


def cosine(first: ScaledMaps, second: ScaledMaps) -> Tensor:
    """Cosine of the scaled maps [B]; flat against flat is 1, flat against not flat 0."""
    both, either = first.flat & second.flat, first.flat | second.flat
    value = F.cosine_similarity(first.values, second.values, dim=1)
    return torch.where(either, both.to(value.dtype), value)


def centred_cosine(first: ScaledMaps, second: ScaledMaps) -> Tensor:
    """Cosine after subtracting each map's mean, that is Pearson's r [B]; NaN where one is flat."""
    value = _pearson(first.values, second.values)
    return value.masked_fill(first.flat | second.flat, torch.nan)


def auroc(scores: Tensor, positive: Tensor, counted: Tensor) -> Tensor:
    """Area under the ROC curve of each row: scores [B,n], positive bool [B,n].

    NaN without both, or where a score is NaN. Where `counted` (bool [B,n]) is False, a value is
    neither positive nor negative.

    The share of (positive, negative) pairs in which the positive scores higher, ties for one half.
    By Mann and Whitney, with R the sum of the positives' mid-ranks among P positives and N
    negatives, it is (R - P (P + 1) / 2) / (P N).
    """
    positives = positive.sum(dim=1)
    # What does not count is below all others and raises every rank by its number.
    scores, others = scores.masked_fill(~counted, -torch.inf), (~counted).sum(dim=1)
    negatives = scores.shape[1] - positives - others
    # Twice the numerator is an integer, which keeps it exact for images of any size.
    twice = (_twice_mid_ranks(scores) * positive).sum(dim=1)
    twice = twice - positives * (positives + 1 + 2 * others)
    area = twice.double() / (2 * positives * negatives)  # 0 / 0 is NaN: undefined
    return area.masked_fill(scores.isnan().any(dim=1), torch.nan)


def _twice_mid_ranks(values: Tensor) -> Tensor:
    # With l values below v and u values at most v, v's ties hold the ranks l+1 ... u: mean
    # (l + u + 1) / 2.
    values = values.contiguous()
    ordered = values.sort(dim=-1).values
    below = torch.searchsorted(ordered, values)
    at_most = torch.searchsorted(ordered, values, right=True)
    return below + at_most + 1


def _pearson(first: Tensor, second: Tensor) -> Tensor:
    first = first - first.mean(dim=1, keepdim=True)
    second = second - second.mean(dim=1, keepdim=True)
    return F.cosine_similarity(first, second, dim=1).to(torch.float32)
