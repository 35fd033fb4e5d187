"""Memory of this machine, and what a file may ask of it."""

import os
from pathlib import Path

from aib.errors import AibError

CHANNELS = 64  # of the feature map at image size that has to fit: VGG's first


def machine_memory() -> int | None:
    """Bytes of physical memory; None where the system does not report it."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_image_memory(image_size: int, path: Path) -> None:
    """Raise an error if the image size in a file needs more memory than the machine has."""
    available, needed = machine_memory(), 4 * CHANNELS * image_size**2
    if available is not None and needed > available:
        raise AibError(
            f"{path} asks for images of {image_size} x {image_size}: {CHANNELS} feature maps of "
            f"that size take {needed // 10**9} GB, and this machine has {available / 1e9:.1f}"
        )
