"""Checks of shapes and types of maps and images, with readable errors; resized maps."""

from typing import Any

from torch import Tensor

from aib.errors import AibError, counted
from aib.figures.overlay import enlarge


def shape(tensor: Tensor) -> str:
    """[8, 3, 32, 32], for a message."""
    return str(list(tensor.shape))


def check_maps(maps: Tensor, count: int | None = None) -> None:
    """Check one map per image: [B,h,w], floating point, for B = count images."""
    if maps.ndim != 3 or maps.numel() == 0:
        raise AibError(f"maps must have the shape [B,h,w] with B, h, w >= 1, not {shape(maps)}")
    if not maps.is_floating_point():
        raise AibError(f"maps must be floating point, not {maps.dtype}")
    if count not in (None, len(maps)):
        raise AibError(f"there must be one map for each of {count} images, not {len(maps)}")


def count_broken(maps: Tensor) -> Tensor:
    """How many of the maps [B,...] hold NaN or infinite values, on their device."""
    return (~maps.isfinite()).reshape(len(maps), -1).any(dim=1).sum()


def check_finite(broken: int, what: str = "the maps") -> None:
    """Raise an error if there were maps with NaN or infinite values."""
    if broken:
        raise AibError(f"{what} of {counted(broken, 'image')} hold NaN or infinite values")


def resize_maps(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Maps [B,h,w] bilinearly to [B,H,W]; ties stay ties."""
    check_maps(maps)
    return enlarge(maps, size)


def class_logits(result: Any, count: int) -> Tensor:
    """The logits [B,C] that a model or a function gave for B = count images.

    They are `result` itself, or its `.logits`.
    """
    logits = getattr(result, "logits", result)
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != count:
        found = shape(logits) if isinstance(logits, Tensor) else type(result).__name__
        raise AibError(f"the model must give logits [{count},classes], not {found}")
    return logits


def check_objects(objects: Tensor, count: int) -> None:
    """Check one mask per image: [B,H,W], bool or integers."""
    if objects.ndim != 3 or objects.numel() == 0 or len(objects) != count:
        raise AibError(f"masks must have the shape [{count},H,W], not {shape(objects)}")
    if objects.is_floating_point() or objects.is_complex():
        raise AibError(
            f"masks must be bool or integers (threshold them first), not {objects.dtype}"
        )
