"""Preprocessing of images: saved with the weights, in config.json."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from aib.config.validation import Positive, Rule, check_fields, parse_json
from aib.data.decode import Resize
from aib.errors import AibError

# A config from elsewhere may not ask for all memory.
SIDE = Rule("from 1 to 8192", lambda side: 1 <= side <= 8192)
THREE = Rule("(three in all)", lambda values: len(values) == 3)
ROUNDING = 1e-3  # how far an interpolation in half precision may exceed the range 0..1


@dataclass(frozen=True)
class Preprocessing:
    """Image size, normalisation and class names of the data that a model was made for."""

    image_size: Annotated[int, SIDE] = 32
    # squash: both sides to image_size, the aspect ratio changes (nothing is cut off);
    # crop: the short side to image_size, then the centre square.
    resize: Resize = "squash"
    mean: Annotated[tuple[float, ...], THREE] = (0.5, 0.5, 0.5)
    std: Annotated[tuple[Positive, ...], THREE] = (0.5, 0.5, 0.5)
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    def normalise(self, pixels: Tensor) -> Tensor:
        """Convert pixels [..., 3, H, W] to the model's normalised floats.

        Integers lie in 0..255 and floats in 0..1, as in torchvision; anything else is an error.
        """
        _check_range(pixels)
        return normalise(pixels, *self.statistics(pixels.device))

    def to_pixels(self, x: Tensor) -> Tensor:
        """The inverse of `normalise`, clipped to 0..255: uint8 [..., 3, H, W]."""
        mean, std = self.statistics(x.device)
        return (255 * (x * std + mean)).round().clamp(0, 255).byte()

    def statistics(self, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the channels, [3,1,1] each, on a 0-1 scale."""
        mean, std = (torch.tensor(v, device=device).view(3, 1, 1) for v in (self.mean, self.std))
        return mean, std

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON types."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: Path) -> "Preprocessing":
        """The inverse of `to_dict`; a missing or unknown key is an error."""
        if odd := sorted(set(cls.__dataclass_fields__) ^ set(values)):
            raise AibError(f"{where}: preprocessing lacks {odd[0]}, or has it and must not")
        read: Preprocessing = parse_json(cls, values, where)
        return read


def normalise(pixels: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Normalise each channel of integers in 0..255 or floats in 0..1, [..., 3, H, W].

    mean and std [3,1,1] on the device of the pixels. To make them on a GPU waits for the device,
    so a loop makes them once.
    """
    scaled = pixels.float() if pixels.is_floating_point() else pixels.float() / 255
    return (scaled - mean) / std


def _check_range(pixels: Tensor) -> None:
    """Raise an error for values outside the range of their dtype."""
    if pixels.dtype == torch.uint8 or not pixels.numel():  # all values of uint8 are pixels
        return
    highest = 1 if pixels.is_floating_point() else 255
    low, high = (float(value) for value in pixels.aminmax())
    in_range = -ROUNDING <= low <= high <= highest + ROUNDING  # never for NaN
    if pixels.dtype == torch.bool or not in_range:
        raise AibError(
            f"pixels must be integers in 0..255 or floats in 0..1, not {pixels.dtype} from "
            f"{low:g} to {high:g}: do not normalise twice"
        )
