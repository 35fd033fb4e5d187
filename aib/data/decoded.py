"""Large images decoded once, as uint8 squares in memory that every epoch crops from."""

import os
from concurrent.futures import ThreadPoolExecutor

import torch
from PIL import Image
from torch import Tensor

from aib.config.validation import Cache
from aib.data.decode import to_tensor
from aib.data.imageset import ImageSet, check_memory
from aib.system.environment import machine_memory
from aib.system.progress import progress_bar

# Side of a square, as a multiple of the model's image size. A crop covers 0.8 of a side on average,
# so that it has about the model's size: neither enlarged nor reduced.
SCALE = 1.25
HOST_SHARE = 0.5  # of the machine's memory that decoded images may take


def fits(cache: Cache, needed: int) -> bool:
    """Whether decoded images of this many bytes stay in memory."""
    small = needed <= HOST_SHARE * (machine_memory() or 0)
    return cache == "memory" or (cache == "auto" and small)


def decode_once(data: ImageSet, cache: Cache, processes: int) -> tuple[Tensor, Tensor] | None:
    """Decode all files: whole images squashed to squares, uint8 [N,3,C,C], and their ratios [N].

    A ratio is width / height. None if the files shall be decoded on access: with the cache `none`,
    or with `auto` if the squares of all `processes` of this machine do not fit.
    """
    files, side = data.files, round(SCALE * data.preprocessing.image_size)
    if files is None or not fits(cache, processes * len(data) * 3 * side * side):
        return None
    check_memory(len(data) * processes, side)
    images = torch.empty((len(data), 3, side, side), dtype=torch.uint8)
    squares = images.numpy()  # see to_tensor

    def decode(index: int) -> float:
        image = files.decode(index, reduce=2 * side)
        squares[index] = to_tensor(image.resize((side, side), Image.Resampling.BILINEAR))
        tick("decoding", 1)
        return image.width / image.height

    # Pillow releases the GIL.
    with progress_bar(len(data)) as tick, ThreadPoolExecutor(os.cpu_count()) as pool:
        return images, torch.tensor(list(pool.map(decode, range(len(data)))), dtype=torch.float32)
