"""Augmentation: the random numbers of an epoch, and the crops and cut-outs made from them."""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

# Smallest area of a training crop of a large image. ImageNet's recipe goes down to 0.08, which on a
# few thousand fine-grained images often loses the object.
MIN_AREA = 0.25
MAX_RATIO = 4 / 3  # aspect ratio of a crop


@dataclass(frozen=True)
class EpochPlan:
    """Order and random numbers of one epoch; row p belongs to the p-th image of the epoch.

    All are sampled at once from (seed, epoch), so that batch size, ranks and workers do not change
    how an image is augmented.
    """

    order: Tensor  # int64 [N], the image at each position
    # float32 [N,10] in [0,1): vertical, horizontal, mirror, area, ratio; row, column of a cut-out;
    # operation, strength, sign of TrivialAugment. A new column comes last: old runs keep theirs.
    uniform: Tensor

    @classmethod
    def sample(cls, count: int, *, seed: int, epoch: int) -> "EpochPlan":
        # SeedSequence mixes the two: (0, 1) and (1, 0) give unrelated numbers.
        mixed = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0])
        generator = torch.Generator().manual_seed(mixed)
        order = torch.randperm(count, generator=generator)
        crops = torch.rand(count, 5, generator=generator)
        cuts = torch.rand(count, 2, generator=generator)
        operations = torch.rand(count, 3, generator=generator)
        return cls(order, torch.cat([crops, cuts, operations], 1))

    def alternate_flip(self, *, seed: int, epoch: int) -> "EpochPlan":
        """Mirror an image as in epoch 0 in every even epoch, the other way round in odd ones.

        Each pair of epochs then shows both views of every image (Jordan, 2024).
        """
        first = EpochPlan.sample(len(self.order), seed=seed, epoch=0)
        mirrored = torch.empty(len(self.order), dtype=torch.bool)
        mirrored[first.order] = first.uniform[:, 2] < 0.5  # by image
        uniform = self.uniform.clone()
        uniform[:, 2] = torch.where(mirrored[self.order] ^ bool(epoch % 2), 0.0, 0.5)
        return EpochPlan(self.order, uniform)


def crop_batch(images: Tensor, indices: Tensor, uniform: Tensor, *, pad: int, flip: bool) -> Tensor:
    """Random crops of images[indices] with reflect padding, half of them mirrored if `flip`.

    images uint8 [N,C,H,W], indices [B], uniform [B,10] -> uint8 [B,C,H,W]. Selecting rows first and
    then columns is faster on a CPU than one gather of single pixels.
    """
    count, (channels, height, width) = len(indices), images.shape[1:]
    shift = (uniform[:, :2] * (2 * pad + 1)).long() - pad  # [B,2], -pad..pad
    rows = torch.arange(height, device=images.device) + shift[:, :1]  # [B,H]
    columns = torch.arange(width, device=images.device).expand(count, width)  # [B,W]
    if flip:
        columns = torch.where(uniform[:, 2:3] < 0.5, columns.flip(1), columns)
    columns = _reflect(columns + shift[:, 1:], width)
    planes = indices[:, None] * channels + torch.arange(channels, device=images.device)  # [B,C]
    lines = planes[:, :, None] * height + _reflect(rows, height)[:, None, :]  # [B,C,H]
    pixels = images.view(-1, width).index_select(0, lines.flatten()).view(count, -1, width)
    picked = pixels.gather(2, columns[:, None, :].expand_as(pixels))  # [B,CH,W]
    return picked.view(count, channels, height, width)


def cut_out(x: Tensor, uniform: Tensor, side: int) -> Tensor:
    """Set a square at a random position of each image to zero, the mean of normalised images.

    x [B,3,H,W] is changed in place; uniform [B,10]. The centre is any pixel, so near an edge part
    of the square lies outside (DeVries and Taylor, 2017).
    """
    inside = []
    for u, size in ((uniform[:, 5:6], x.shape[2]), (uniform[:, 6:7], x.shape[3])):
        first = (u * size).long() - side // 2  # [B,1]
        position = torch.arange(size, device=x.device)
        inside.append((position >= first) & (position < first + side))  # [B,size]
    rows, columns = inside
    return x.masked_fill_((rows[:, :, None] & columns[:, None, :]).unsqueeze(1), 0)


def _reflect(index: Tensor, size: int) -> Tensor:
    """Reflect indices as torch's reflect padding does: -1 -> 1, size -> size - 2."""
    last = size - 1
    return last - (last - index.abs()).abs()


def crop_image(image: Image.Image, uniform: Tensor, *, size: int, flip: bool) -> Image.Image:
    """A random crop of a large image, resized: area, ratio, position from uniform [10]."""
    down, across, mirror, u_area, u_ratio = uniform[:5].tolist()
    area = image.width * image.height * (MIN_AREA + (1 - MIN_AREA) * u_area)
    ratio = math.exp((2 * u_ratio - 1) * math.log(MAX_RATIO))
    width = min(math.sqrt(area * ratio), image.width)
    height = min(math.sqrt(area / ratio), image.height)
    left, top = across * (image.width - width), down * (image.height - height)
    box = (left, top, min(left + width, image.width), min(top + height, image.height))
    crop = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    if flip and mirror < 0.5:
        crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return crop


def crop_squares(
    images: Tensor, ratios: Tensor, uniform: Tensor, *, size: int, flip: bool
) -> Tensor:
    """Random crops of whole images squashed to squares, resized: `crop_image` for a batch.

    images uint8 [B,3,C,C], ratios [B] width / height, uniform [B,10] -> uint8 [B,3,size,size].
    """
    down, across, mirror, area, ratio = uniform[:, :5].unbind(1)  # [B] each
    area = MIN_AREA + (1 - MIN_AREA) * area
    ratio = torch.exp((2 * ratio - 1) * math.log(MAX_RATIO)) / ratios  # of the crop in the square
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    left, top = across * (1 - width), down * (1 - height)
    sign = torch.where(mirror < 0.5, -1.0, 1.0) if flip else torch.ones_like(mirror)
    # x = width u + (centre of the crop), y likewise, for u in [-1,1] over the crop's pixels
    zero = torch.zeros_like(width)
    across_row = torch.stack([sign * width, zero, 2 * left + width - 1], 1)
    down_row = torch.stack([zero, height, 2 * top + height - 1], 1)
    grid = F.affine_grid(
        torch.stack([across_row, down_row], 1), [len(images), 3, size, size], align_corners=False
    )
    pixels = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return pixels.round_().to(torch.uint8)
