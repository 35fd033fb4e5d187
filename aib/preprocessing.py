"""What happens to an image before a model sees it. It travels with the weights, in config.json."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from aib.errors import AibError

Resize = Literal["squash", "crop"]
MAX_IMAGE_SIZE = 4096
ROUNDING = 1e-3  # how far an interpolation in half precision may lead floats out of 0..1


@dataclass(frozen=True)
class Preprocessing:
    """Size, normalisation and class names of the data that a model was made for."""

    image_size: int = 32
    # squash: both sides to image_size, the aspect ratio changes (nothing is cut away);
    # crop: the short side to image_size, then the centre square.
    resize: Resize = "squash"
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Types are checked as well: the values may come from a file that anybody wrote.
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
        """Pixels [..., 3, H, W] to the floats a model takes.

        Integers lie in 0..255 and floats in 0..1, as in torchvision; anything else is refused.
        """
        mean = torch.tensor(self.mean, device=pixels.device).view(3, 1, 1)
        std = torch.tensor(self.std, device=pixels.device).view(3, 1, 1)
        return (_zero_to_one(pixels) - mean) / std

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preprocessing":
        """The inverse of `to_dict`; an unknown or missing key is an error."""
        if set(values) != set(cls.__dataclass_fields__):
            raise AibError(
                f"preprocessing needs exactly {sorted(cls.__dataclass_fields__)}, "
                f"not {sorted(values)}"
            )
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**fields)


def check_image_size(size: int) -> int:
    """Refuse what is no size of an image, or one that no memory holds."""
    if not _is_whole(size) or not 1 <= size <= MAX_IMAGE_SIZE:
        raise AibError(
            f"image_size must be a whole number from 1 to {MAX_IMAGE_SIZE}, not {size!r}"
        )
    return size


def _zero_to_one(pixels: Tensor) -> Tensor:
    """Pixels as float32 in 0..1; refuse values outside the range of their dtype."""
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


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _three_numbers(values: object) -> bool:
    return (
        isinstance(values, tuple)
        and len(values) == 3
        and all(_is_whole(v) or isinstance(v, float) for v in values)
        and all(abs(v) < 1e6 for v in values)  # not NaN either; pixels lie between 0 and 1
    )
