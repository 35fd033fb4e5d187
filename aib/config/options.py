"""The options of a named model: one dataclass, from the command line to config.json.

A new option is one field here. `Settings` nests it, so that `aib train` gets a flag, and
`create_model` takes it as a keyword argument, stores it in config.json and hands it to the
backbone and the builder (`registry.py`).
"""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

from aib.config.validation import (
    Count,
    Fraction,
    Modulation,
    NumAnchors,
    Positive,
    ProfileName,
    Rule,
    check_fields,
    reject_unknown,
)

Propose = Literal["separate", "twice", "copy"]
MapStride = Annotated[int, Rule("8 or 16", lambda stride: stride in (8, 16))]
Area = Annotated[float, Rule("above 0 and at most 1", lambda share: 0 < share <= 1)]


@dataclass(frozen=True)
class ModelOptions:
    """Options of a model. The defaults are the paper's; None takes the family's or profile's."""

    width: Positive = 1.0
    """Factor of the channels of all layers."""
    dropout: Fraction = 0.3
    """Dropout in WRN's blocks at 32 x 32."""
    latent_dim: Count | None = None
    """K, the size of the latent."""
    head_norm: bool = False
    """Begin the head with BatchNorm."""
    pool_size: Count | None = None
    """Side of VGG's last features at 224 (paper: 3)."""
    num_anchors: NumAnchors | None = None
    """Q, the number of anchors."""
    modulation: Modulation | None = None
    """gate or residual."""
    area: Area = 0.25
    """Share of each image that the mask may keep."""
    noise_std: Positive | None = None
    """Std of the noise that replaces pixels."""
    propose: Propose | None = None
    """Map by a "separate" network, "copy" or "twice"."""
    map_stride: MapStride = 8
    """Pixels per position of a copy's map: 8 or 16."""
    profile: ProfileName = "paper"
    """The paper's mathematics, or released code."""

    def __post_init__(self) -> None:
        check_fields(self)

    def updated(self, **changes: Any) -> "ModelOptions":
        """A copy with these values; an unknown name is an error."""
        reject_unknown(changes, OPTION_NAMES, "no model option", "aib train --help")
        return replace(self, **changes)

    def changed(self) -> dict[str, Any]:
        """The options that are not at their defaults."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {f.name: values[f.name] for f in fields(self) if values[f.name] != f.default}


def is_library_name(name: str) -> bool:
    """Whether this is the name of a network in timm or torchvision."""
    return name.partition(":")[0] in ("timm", "torchvision")


OPTION_NAMES = tuple(f.name for f in fields(ModelOptions))
OPTION_NEEDS = {  # the part that a model needs for an option to change anything
    "dropout": "dropout",
    "latent_dim": "latent",
    "num_anchors": "anchors",
    "modulation": "aib attention",
    "area": "mask",
    "noise_std": "pixel noise",
    "propose": "pixel noise",
    "map_stride": "mask",
}
