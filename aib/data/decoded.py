"""Decoded copies: large images decoded once, as uint8 squares that every epoch crops from.

A copy holds each whole image squashed to C x C, and its aspect ratio. A random crop of an image, as
`crop_image` takes it from the file, is a rectangle of the square: `crop_copies` samples it for a
whole batch on the device.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from aib.config.validation import Cache
from aib.data.augment import MAX_RATIO, MIN_AREA
from aib.data.decode import to_tensor
from aib.data.imageset import ImageFiles, ImageSet, check_memory
from aib.system.memory import machine_memory
from aib.system.progress import progress_bar

# Side of a copy, as a multiple of the model's image size. A crop covers 0.8 of a side on average,
# so that it has about the model's size: neither enlarged nor reduced.
SCALE = 1.25
DEVICE_SHARE = 0.25  # of a GPU's free memory that a copy may take
HOST_SHARE = 0.5  # of the machine's memory


@dataclass(frozen=True)
class DecodedCopy:
    """The decoded images of a data set."""

    images: Tensor  # uint8 [N,3,C,C], in memory or on the device
    ratios: Tensor  # float32 [N], width / height of each image

    def squares(self, on_host: Tensor, index: Tensor) -> Tensor:
        """Images uint8 [B,3,C,C] on the device of `index` [B]."""
        if self.images.device == index.device:
            return self.images.index_select(0, index)
        return move(self.images.index_select(0, on_host), index.device)

    def __str__(self) -> str:
        count, side, size = len(self.images), self.images.shape[-1], self.images.nbytes / 1e6
        where = "memory" if self.images.device.type == "cpu" else "GPU memory"
        return f"{count:,} images decoded once at {side} x {side}: {size:,.0f} MB of {where}"


def decode_once(
    data: ImageSet, cache: Cache, processes: int = 1, device: torch.device | str = "cpu"
) -> DecodedCopy | None:
    """Decode all files of a data set into memory; None if they shall be decoded on access.

    cache: `memory`, `none`, or `auto`: memory if the copies take at most half of it.
    processes: on this machine, each with a copy of its own.
    device: holds the copy if it takes at most a quarter of its memory.
    """
    assert isinstance(data.files, ImageFiles)
    side = round(SCALE * data.preprocessing.image_size)
    shape = (len(data), 3, side, side)
    if cache == "none" or (cache == "auto" and not _fits(math.prod(shape) * processes)):
        return None
    check_memory(len(data) * processes, side)
    images = torch.empty(shape, dtype=torch.uint8)
    ratios = _decode_into(images, data.files).to(device)
    if ratios.is_cuda and images.nbytes <= DEVICE_SHARE * torch.cuda.mem_get_info(device)[0]:
        images = images.to(device)
    return DecodedCopy(images, ratios)


def move(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on the device, without waiting for a GPU."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def fits_in_memory(data: ImageSet, cache: Cache = "auto") -> bool:
    """Whether evaluation may keep all images at the model's size, with their masks."""
    return cache != "none" and _fits(4 * len(data) * data.preprocessing.image_size**2)


def _fits(needed: int) -> bool:
    memory = machine_memory()
    return memory is not None and needed <= HOST_SHARE * memory


def crop_copies(images: Tensor, ratios: Tensor, uniform: Tensor, size: int, flip: bool) -> Tensor:
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


def _decode_into(images: Tensor, files: ImageFiles) -> Tensor:
    """Decode all files into `images` [N,3,C,C] with all cores; return their ratios [N]."""
    side = images.shape[-1]

    def decode(index: int) -> float:
        image = files.decode(index, reduce=2 * side)
        images[index] = to_tensor(image.resize((side, side), Image.Resampling.BILINEAR))
        tick("decoding", 1)
        return image.width / image.height

    # Pillow releases the GIL.
    with progress_bar(len(images)) as tick, ThreadPoolExecutor(os.cpu_count()) as pool:
        return torch.tensor(list(pool.map(decode, range(len(images)))), dtype=torch.float32)
