"""What happens to an image before a model sees it. It travels with the weights, in config.json."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from aib.errors import AibError

Resize = Literal["squash", "crop"]


@dataclass(frozen=True)
class Preprocessing:
    """Size, normalisation and class names of the data that a model was made for."""

    image_size: int = 32
    # squash: both sides to image_size, the aspect ratio changes (nothing is cut away);
    # crop: the short side to image_size, then the centre square.
    resize: Resize = "squash"
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    class_names: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.image_size < 1:
            raise AibError(f"image_size must be at least 1, not {self.image_size}")
        if self.resize not in ("squash", "crop"):
            raise AibError(f"resize must be 'squash' or 'crop', not {self.resize!r}")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise AibError(
                f"mean and std need three values and std must be positive: "
                f"mean {self.mean}, std {self.std}"
            )

    def normalise(self, pixels: Tensor) -> Tensor:
        """uint8 pixels [..., 3, H, W] to the floats a model takes."""
        mean = torch.tensor(self.mean, device=pixels.device).view(3, 1, 1)
        std = torch.tensor(self.std, device=pixels.device).view(3, 1, 1)
        return (pixels.float() / 255 - mean) / std

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
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
