"""What a file may ask of this machine's memory."""

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from aib.errors import AibError

SMALL = 512  # a pass over an image of this size fits everywhere, and is not measured
SHARE = 0.5  # of the memory that one operation may fill: other tensors live beside it


def machine_memory() -> int | None:
    """Bytes of physical memory; None where the system does not say."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_pass(network: nn.Module, image_size: int, path: Path, images: int = 1) -> None:
    """Refuse an `image_size`, read from the file `path`, whose images this machine cannot pass."""
    there = machine_memory()
    if image_size <= SMALL or there is None:
        return
    needed = pass_memory(network, image_size, images)
    if needed > SHARE * there:
        raise AibError(
            f"{path} asks for images of {image_size} x {image_size}: one operation of this model "
            f"takes {needed / 1e9:.1f} GB then, and this machine has {there / 1e9:.1f}; set a "
            "smaller image_size in it"
        )


@torch.no_grad()
def pass_memory(network: nn.Module, image_size: int, images: int = 1) -> int:
    """The most bytes that one operation reads and writes; from shapes alone, nothing is computed.

    Of a network that needs values to know its shapes, only the images count.
    """
    shapes = deepcopy(network).to("meta").eval()
    x = torch.empty(images, 3, image_size, image_size, device="meta")
    seen = _Operands()
    try:
        with seen:
            shapes(x)
    except Exception:  # somebody else's network; what it can raise is not known
        return max(seen.most, x.nbytes)
    return seen.most


class _Operands(TorchDispatchMode):
    """Watches every operation for the tensors it reads and writes."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        tensors = [t for t in tree_leaves((args, kwargs, out)) if isinstance(t, Tensor)]
        storages = {s._cdata: s.nbytes() for s in (t.untyped_storage() for t in tensors)}
        self.most = max(self.most, sum(storages.values()))
        return out
