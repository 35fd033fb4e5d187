"""The connected components of many binary images at once, on any device.

Each row is cut into runs, its maximal segments of foreground. Runs of adjacent rows that touch are
joined by a union-find in parallel: there are far fewer runs than pixels.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Components(NamedTuple):
    """The n components of all images, image by image in raster order."""

    boxes: Tensor  # [n,4]: left, top, right, bottom in pixels, right and bottom exclusive
    pixels: Tensor  # [n], how many each has
    image: Tensor  # [n], the index of its image


def connected_components(foreground: Tensor) -> Components:
    """All components of binary images, bool [P,H,W].

    Pixels that share an edge or a corner are connected.
    """
    height, width = foreground.shape[1:]
    # An empty column and an empty row after each image: no run crosses them in the flat order.
    flat = F.pad(F.pad(foreground, (0, 1, 0, 1)).flatten(), (1, 0))
    changes = (flat[1:] != flat[:-1]).nonzero()[:, 0]  # start, end, start, end, ...
    starts, ends = changes.reshape(-1, 2).T.contiguous()  # [n] each
    stride = width + 1
    root = _join(len(starts), *_touching(starts, ends, stride))  # the first run of each component
    row, image = starts // stride % (height + 1), starts // (stride * (height + 1))
    pixels = torch.zeros_like(root).scatter_add_(0, root, ends - starts)  # 0 unless a root
    left = (starts % stride).scatter_reduce(0, root, starts % stride, "amin")
    right = (ends % stride).scatter_reduce(0, root, ends % stride, "amax")
    bottom = (row + 1).scatter_reduce(0, root, row + 1, "amax")
    first = pixels.nonzero()[:, 0]
    # A root is its component's first run, so its row is the top.
    boxes = torch.stack([left, row, right, bottom], dim=1)
    return Components(boxes[first], pixels[first], image[first])


def _touching(starts: Tensor, ends: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Every pair of runs (a, b) with b in the row below a, sharing an edge or a corner."""
    # The runs below that touch [start, end) are those with end' >= start and start' <= end.
    first = torch.searchsorted(ends, starts + stride)
    count = torch.searchsorted(starts, ends + stride, right=True) - first
    above = torch.arange(len(starts), device=starts.device).repeat_interleave(count)
    within = torch.arange(len(above), device=starts.device) - (count.cumsum(0) - count)[above]
    return above, first[above] + within


def _join(n: int, a: Tensor, b: Tensor) -> Tensor:
    """The smallest member of the component of each of n elements, for edges a[i] - b[i]: [n]."""
    root = torch.arange(n, device=a.device)
    while len(a):  # a and b are roots here
        root.scatter_reduce_(0, torch.maximum(a, b), torch.minimum(a, b), "amin")
        while not torch.equal(root, shorter := root[root]):
            root = shorter
        a, b = root[a], root[b]
        open_edges = a != b
        a, b = a[open_edges], b[open_edges]
    return root
