"""Decoded copies: large images decoded once, as uint8 squares that every epoch crops from.

A copy holds each whole image squashed to C x C, and its aspect ratio. A random crop of an image,
as `crop_image` takes it from the file, is a rectangle of the square: `crop_copies` samples that
rectangle for a whole batch on the device. Area, aspect ratio and position of the crops are those
of `crop_image`; only the resolution is limited to that of the copy.
"""

import hashlib
import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from filelock import FileLock
from PIL import Image
from torch import Tensor

from aib.config.validation import Cache
from aib.data.augment import MAX_RATIO, MIN_AREA
from aib.data.decode import to_tensor
from aib.data.files import cache_folder
from aib.data.imageset import ImageFiles, ImageSet
from aib.errors import AibError
from aib.system.memory import machine_memory
from aib.system.progress import progress_bar

# Side of a copy, as a multiple of the model's image size. A crop covers 0.8 of a side on average,
# so that it has about the model's size: neither enlarged nor reduced.
SCALE = 1.25
DEVICE_SHARE = 0.25  # of a GPU's free memory that a copy may take
HOST_SHARE = 0.5  # of the machine's memory, and of the free disk space


@dataclass(frozen=True)
class DecodedCopy:
    """The decoded images of a data set."""

    images: Tensor  # uint8 [N,3,C,C], in memory, mapped from a file, or on the device
    ratios: Tensor  # float32 [N], width / height of each image
    where: str  # for messages

    def to(self, device: torch.device) -> "DecodedCopy":
        """On the device: the ratios always, the images if they take a quarter of its memory."""
        images, where = self.images, self.where
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if images.nbytes <= DEVICE_SHARE * free:
                images, where = images.to(device), f"on {device}"
        return DecodedCopy(images, self.ratios.to(device), where)

    def __str__(self) -> str:
        count, side, size = len(self.images), self.images.shape[-1], self.images.nbytes / 1e6
        return f"{count:,} images decoded once at {side} x {side}: {size:,.0f} MB {self.where}"


def decode_once(data: ImageSet, cache: Cache = "auto", processes: int = 1) -> DecodedCopy | None:
    """Decode all files of a data set; None if they shall be decoded on access.

    cache: `memory`, `disk` (a file in the cache folder, mapped into memory and used again by later
        runs), `none`; or `auto`, the first of these with enough space.
    processes: on this machine, each with a copy of its own in memory.
    """
    assert isinstance(data.files, ImageFiles)
    side = round(SCALE * data.preprocessing.image_size)
    shape = (len(data), 3, side, side)
    needed = math.prod(shape)
    memory = machine_memory()
    if cache == "memory" or (
        cache == "auto" and memory is not None and needed * processes <= HOST_SHARE * memory
    ):
        if memory is not None and needed * processes > memory:
            raise AibError(
                f"a decoded copy of {data.name} needs {needed * processes / 1e9:,.1f} GB and this "
                f"machine has {memory / 1e9:,.1f} GB: choose --cache disk or none"
            )
        images = torch.empty(shape, dtype=torch.uint8)
        return DecodedCopy(images, _decode_into(images, data.files), "in memory")
    if cache == "none":
        return None
    try:
        return _on_disk(data.files, shape, needed, cache_folder() / "decoded")
    except OSError as error:
        if cache == "auto":
            return None
        raise AibError(
            f"a decoded copy of {data.name} cannot be kept in {cache_folder() / 'decoded'}: "
            f"{error.strerror or error}; set AIB_DATA to another folder, or choose --cache none"
        ) from error


def fits_in_memory(data: ImageSet, cache: Cache = "auto") -> bool:
    """Whether evaluation may keep all images at the model's size, with their masks."""
    memory, needed = machine_memory(), 4 * len(data) * data.preprocessing.image_size**2
    return cache in ("auto", "memory") and memory is not None and needed <= HOST_SHARE * memory


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
        try:
            ratios = list(pool.map(decode, range(len(images))))
            return torch.tensor(ratios, dtype=torch.float32)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # a damaged file: do not decode all others first
            raise


def _on_disk(files: ImageFiles, shape: tuple[int, ...], needed: int, folder: Path) -> DecodedCopy:
    """The copy in a file of the folder, decoded unless an earlier run did."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_digest(files, shape)}.npy"
    ratios = path.with_suffix(".ratios.npy")
    with FileLock(path.with_suffix(".lock")):  # of several processes one decodes
        if not path.is_file():
            free = shutil.disk_usage(folder).free
            if needed > HOST_SHARE * free:
                raise OSError(f"it needs {needed / 1e9:,.1f} GB, and {free / 1e9:,.1f} are free")
            partial = path.with_suffix(".partial")
            images = np.lib.format.open_memmap(partial, "w+", np.uint8, shape)
            np.save(ratios, _decode_into(torch.from_numpy(images), files).numpy())
            images.flush()
            partial.rename(path)
    # "c": private to this process, and writable, as torch wants memory to be
    mapped = torch.from_numpy(np.lib.format.open_memmap(path, "c"))
    return DecodedCopy(mapped, torch.from_numpy(np.load(ratios)), f"in {path}")


def _digest(files: ImageFiles, shape: tuple[int, ...]) -> str:
    """A name that changes with the files, their crops and the size of the copy."""
    digest = hashlib.blake2b(repr(shape).encode(), digest_size=12)
    for path in files.paths:
        status = path.stat()
        line = f"{path.resolve()} {status.st_size} {status.st_mtime_ns}\n"
        digest.update(os.fsencode(line))  # a name may hold bytes that are no text
    if files.crops is not None:
        digest.update(files.crops.numpy().tobytes())
    return digest.hexdigest()
