"""Mixtures of two training images: mixup and CutMix; and labels that are probabilities."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Mix:
    """Mixes each image of a batch with its partner: the image at the same position from the end.

    mixup (Zhang et al., 2018): share * image + (1 - share) * partner. CutMix (Yun et al., 2019): a
    rectangle of the partner replaces the image's. The share is sampled once per batch, from
    Beta(alpha, alpha), and the labels are mixed with it; with both, one of them is chosen at random
    per batch. `label_smoothing` moves that part of each label to all classes alike.
    """

    num_classes: int
    mixup: float = 0.0  # alpha; 0 for none
    cutmix: float = 0.0
    label_smoothing: float = 0.0
    seed: int = 0

    def batches(
        self, batches: Iterable[tuple[Tensor, Tensor]], epoch: int, start: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of an epoch from step `start` on, mixed."""
        for step, (x, y) in enumerate(batches, start):
            yield self(x, y, epoch, step)

    def __call__(self, x: Tensor, y: Tensor, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        """x [B,3,H,W], which may be overwritten, and y int64 [B] to the mixture and y [B,C].

        The random numbers are a function of (seed, epoch, step): ranks agree, a resumed run too.
        Labels stay int64 [B] if nothing is set.
        """
        if not (self.mixup or self.cutmix or self.label_smoothing):
            return x, y
        labels = self.soft_labels(y)
        if not (self.mixup or self.cutmix):
            return x, labels
        random = np.random.default_rng([self.seed, epoch, step])
        cut = random.random() < 0.5 if self.mixup and self.cutmix else bool(self.cutmix)
        alpha = self.cutmix if cut else self.mixup
        share = float(random.beta(alpha, alpha))
        if cut:
            x, share = paste(x, share, *random.random(2))
        else:
            x = torch.lerp(x.flip(0), x, share)
        return x, torch.lerp(labels.flip(0), labels, share)

    def soft_labels(self, y: Tensor) -> Tensor:
        """Class indices [B] to probabilities [B,C]."""
        rest = self.label_smoothing / self.num_classes
        labels = torch.full((len(y), self.num_classes), rest, device=y.device)
        return labels.scatter_(1, y[:, None], 1 - self.label_smoothing + rest)


def paste(x: Tensor, share: float, down: float, across: float) -> tuple[Tensor, float]:
    """Copy a rectangle of the reversed batch into x, in place; return x and the share it kept.

    The rectangle has 1 - share of the area and the image's aspect ratio; its centre is anywhere, so
    that a part may lie outside of the image.
    """
    height, width = x.shape[2:]
    side = math.sqrt(1 - share)
    top, bottom = _span(int(down * height), int(side * height), height)
    left, right = _span(int(across * width), int(side * width), width)
    x[:, :, top:bottom, left:right] = x.flip(0)[:, :, top:bottom, left:right]
    return x, 1 - (bottom - top) * (right - left) / (height * width)


def _span(centre: int, length: int, size: int) -> tuple[int, int]:
    first = centre - length // 2
    return max(first, 0), min(first + length, size)
