"""Preprocessing of a model's images: size, normalisation, class names. Stored in config.json."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from aib.errors import AibError

Resize = Literal["squash", "crop"]
MAX_IMAGE_SIZE = 4096
ROUNDING = 1e-3  # tolerance around 0..1, for floats interpolated in half precision


@dataclass(frozen=True)
class Preprocessing:
    """Image size, channel statistics and class names of the data that a model was trained on."""

    image_size: int = 32
    # squash: resize both sides to image_size (the aspect ratio changes, nothing is cut off);
    # crop: resize the short side to image_size, then take the centre square.
    resize: Resize = "squash"
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Types are checked too: the values may come from a file.
        check_image_size(self.image_size)
        if self.resize not in get_args(Resize):
            raise AibError(f"resize must be 'squash' or 'crop', not {self.resize!r}")
        if not (_three_numbers(self.mean) and _three_numbers(self.std) and min(self.std) > 0):
            raise AibError(
                f"mean and std need three numbers each, those of std above 0: "
                f"mean {self.mean!r}, std {self.std!r}"
            )
        names = self.class_names
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise AibError(f"class_names must be strings, not {names!r}")

    def normalise(self, pixels: Tensor) -> Tensor:
        """Check pixels [..., 3, H, W] and normalise them for a model.

        Integers must lie in 0..255 and floats in 0..1, as in torchvision.
        """
        _check_range(pixels)
        return normalise(pixels, *self.statistics(pixels.device))

    def statistics(self, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the channels, [3,1,1] each, on a 0-1 scale."""
        mean, std = (torch.tensor(v, device=device).view(3, 1, 1) for v in (self.mean, self.std))
        return mean, std

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON types."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preprocessing":
        """Inverse of `to_dict`; an unknown or missing key is an error."""
        if set(values) != set(cls.__dataclass_fields__):
            raise AibError(
                f"preprocessing needs exactly {sorted(cls.__dataclass_fields__)}, "
                f"not {sorted(values)}"
            )
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**fields)


def normalise(pixels: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Normalise each channel of integers in 0..255 or floats in 0..1, [..., 3, H, W].

    mean and std [3,1,1] on the device of the pixels. To make them on a GPU waits for the device,
    so a loop makes them once.
    """
    scaled = pixels.float() if pixels.is_floating_point() else pixels.float() / 255
    return (scaled - mean) / std


def check_image_size(size: int) -> int:
    """Check the type and range of an image size."""
    if not _is_integer(size) or not 1 <= size <= MAX_IMAGE_SIZE:
        raise AibError(f"image_size must be an integer from 1 to {MAX_IMAGE_SIZE}, not {size!r}")
    return size


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
            f"{low:g} to {high:g}: convert them with .to(torch.uint8) or clamp them, and do "
            "not normalise twice"
        )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _three_numbers(values: object) -> bool:
    return (
        isinstance(values, tuple)
        and len(values) == 3
        and all(_is_integer(v) or isinstance(v, float) for v in values)
        and all(abs(v) < 1e6 for v in values)  # false for NaN as well
    )
