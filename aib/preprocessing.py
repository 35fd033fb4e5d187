"""Preprocessing of images: saved with the weights, in config.json."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from aib.errors import AibError
from aib.validation import Count, Positive, Rule, check, check_fields, from_json

Resize = Literal["squash", "crop"]
THREE = Rule("(three in all)", lambda values: len(values) == 3)
ROUNDING = 1e-3  # how far an interpolation in half precision may exceed the range 0..1


@dataclass(frozen=True)
class Preprocessing:
    """Image size, normalisation and class names of the data that a model was made for."""

    image_size: Count = 32
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
        mean = torch.tensor(self.mean, device=pixels.device).view(3, 1, 1)
        std = torch.tensor(self.std, device=pixels.device).view(3, 1, 1)
        return (_zero_to_one(pixels) - mean) / std

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON types."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: Path) -> "Preprocessing":
        """The inverse of `to_dict`; a missing key is an error."""
        missing = sorted(set(cls.__dataclass_fields__) - set(values))
        if missing:
            raise AibError(f"{where}: preprocessing has no {missing[0]}")
        return from_json(cls, values, where)


def check_image_size(size: int) -> int:
    """Raise an error unless this is a possible side of an image."""
    check("image_size", size, Count)
    return size


def _zero_to_one(pixels: Tensor) -> Tensor:
    """Convert pixels to float32 in 0..1; raise an error for values outside their dtype's range."""
    scale = 1 if pixels.is_floating_point() else 255
    if pixels.dtype != torch.uint8 and pixels.numel():  # all values of uint8 are pixels
        low, high = (float(value) for value in pixels.aminmax())
        in_range = -ROUNDING <= low <= high <= scale + ROUNDING  # never for NaN
        if pixels.dtype == torch.bool or not in_range:
            raise AibError(
                f"pixels must be integers in 0..255 or floats in 0..1, not {pixels.dtype} from "
                f"{low:g} to {high:g}: convert them with .to(torch.uint8) or clamp them, and do "
                "not normalise twice"
            )
    return pixels.float() / scale
