"""The largest connected component of many binary images at once, on any device.

Each row is cut into runs, its maximal segments of foreground. Runs of adjacent rows that touch are
joined by a union-find in parallel: there are far fewer runs than pixels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def largest_component_boxes(foreground: Tensor) -> Tensor:
    """Box of the largest component of each binary image: bool [P,H,W] to int64 [P,4].

    A box is (left, top, right, bottom) in pixels, right and bottom exclusive. Pixels that share an
    edge or a corner are connected. The largest component has the most pixels; of equally large ones
    it is the first in raster order. An image without foreground has the box (0, 0, 0, 0).
    """
    images, height, width = foreground.shape
    boxes = torch.zeros(images, 4, dtype=torch.long, device=foreground.device)
    # An empty column and an empty row after each image: no run crosses them in the flat order.
    flat = F.pad(F.pad(foreground, (0, 1, 0, 1)).flatten(), (1, 0))
    changes = (flat[1:] != flat[:-1]).nonzero()[:, 0]  # start, end, start, end, ...
    starts, ends = changes.reshape(-1, 2).T.contiguous()  # [n] each
    n, stride = len(starts), width + 1
    if n == 0:
        return boxes
    root = _join(n, *_touching(starts, ends, stride))  # [n], the first run of each one's component
    row, plane = starts // stride % (height + 1), starts // (stride * (height + 1))
    pixels = torch.zeros_like(root).scatter_add_(0, root, ends - starts)  # 0 unless a root
    left = (starts % stride).scatter_reduce(0, root, starts % stride, "amin")
    right = (ends % stride).scatter_reduce(0, root, ends % stride, "amax")
    bottom = (row + 1).scatter_reduce(0, root, row + 1, "amax")
    # One number orders components by size, then from the first to the last.
    key = pixels * n + torch.arange(n - 1, -1, -1, device=root.device)
    best = torch.zeros_like(boxes[:, 0]).scatter_reduce_(0, plane, key, "amax")  # [P]
    chosen = n - 1 - best % n
    # A root is its component's first run, so its row is the top.
    found = torch.stack([left[chosen], row[chosen], right[chosen], bottom[chosen]], dim=1)
    return torch.where(best[:, None] > 0, found, boxes)


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
