"""The options of a named model: one dataclass, from the command line to config.json.

A new option is one field here. `Settings` nests it, so that `aib train` gets a flag, and
`create_model` takes it as a keyword argument, stores it in config.json and hands it to the
backbone and the builder (`registry.py`).
"""

from dataclasses import dataclass, field, fields, replace
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

# The part that a model needs for an option to change anything.
DROPOUT = {"needs": "dropout"}
LATENT = {"needs": "latent"}
ANCHORS = {"needs": "anchors"}
ATTENTION = {"needs": "aib attention"}
MASK = {"needs": "mask"}

Propose = Literal["separate", "twice", "copy"]
MapStride = Annotated[int, Rule("8 or 16", lambda stride: stride in (8, 16))]
STRETCH = 1.1  # of masks, where nothing else was chosen
Stretch = Annotated[float, Rule(f"at least {STRETCH}", lambda stretch: stretch >= STRETCH)]
Area = Annotated[float, Rule("above 0 and at most 1", lambda share: 0 < share <= 1)]


@dataclass(frozen=True)
class ModelOptions:
    """Options of a model. The defaults are the paper's; None takes the family's or profile's."""

    width: Positive = 1.0
    """Scales the channels of backbone and attention."""
    dropout: Fraction = field(default=0.3, metadata=DROPOUT)
    """Dropout inside WRN's blocks at 32 x 32."""
    latent_dim: Count | None = field(default=None, metadata=LATENT)
    """K, the size of the latent; the family's if not given."""
    head_norm: bool = False
    """Begin the head with BatchNorm, as masked models at 224 always do."""
    pool_size: Count | None = None
    """VGG at 224: average the last features to a grid of this side, the paper's 3 if not given."""
    num_anchors: NumAnchors | None = field(default=None, metadata=ANCHORS)
    """Q, the number of anchors; the family's if not given."""
    modulation: Modulation | None = field(default=None, metadata=ATTENTION)
    """How attention acts on the features; the profile's if not given."""
    area: Area = field(default=0.25, metadata=MASK)
    """Masked models: the share of each image that the map may open; 1 for no budget."""
    map_size: Count | None = field(default=None, metadata=MASK)
    """Masked models, "separate": side of the map; if not given 16 at 32 x 32, 14 at 224 x 224."""
    map_stride: MapStride | None = field(default=None, metadata=MASK)
    """Masked models, "copy": pixels per position of the map, 8 (default) or 16."""
    noise_std: Positive | None = field(default=None, metadata=MASK)
    """Masked models: standard deviation of the noise in place of closed pixels; the family's (1,
    EfficientNet-Lite's 0.5) if not given."""
    stretch: Stretch = field(default=STRETCH, metadata=MASK)
    """Masked models: how steep the mask is in the end; steeper leaves fewer pixels half open."""
    propose: Propose | None = field(default=None, metadata=MASK)
    """Masked models: map by a "separate" network (default at 32), a "copy" of the first stages
    (EfficientNet-Lite's default), or a first pass of the same network ("twice")."""
    sample_map: bool = field(default=False, metadata=MASK)
    """Masked models: sample the map around its mean, as the paper's attention is."""
    quantise_map: bool = field(default=False, metadata=MASK)
    """Masked models: quantise the map to `num_anchors` levels, as the paper's attention is."""
    profile: ProfileName = "paper"
    """The paper's mathematics, or the authors' released code."""

    def __post_init__(self) -> None:
        check_fields(self)

    def updated(self, **changes: Any) -> "ModelOptions":
        """A copy with these values; an unknown name is an error."""
        reject_unknown(changes, OPTION_NAMES, "no model option", "aib train --help")
        return replace(self, **changes)

    def changed(self, part: str) -> list[str]:
        """Names of the options for this part of a model that are not at their defaults.

        `modulation` does not count: `create_model` fills it in for every model.
        """
        mine = [f for f in fields(self) if f.metadata.get("needs") == part]
        changed = [f.name for f in mine if getattr(self, f.name) != f.default]
        return [name for name in changed if name != "modulation"]


def is_library_name(name: str) -> bool:
    """Whether this is the name of a network in timm or torchvision."""
    return name.partition(":")[0] in ("timm", "torchvision")


OPTION_NAMES = tuple(f.name for f in fields(ModelOptions))
OPTION_NEEDS = {f.name: f.metadata["needs"] for f in fields(ModelOptions) if f.metadata}
