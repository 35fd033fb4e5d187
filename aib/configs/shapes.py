"""Cluttered shapes: small enough for two CPU cores, with masks to compare the maps with."""

from aib.configs.preset import Measured, Preset
from aib.settings import Settings

TINY = Settings(
    data="shapes",
    model="tiny_aib_qt",
    epochs=4,
    batch_size=32,
    lr=0.1,
    schedule="cosine",
    warmup=0.5,
    clip=2.0,
    channels_last=True,
    beta_warmup=2.0,  # without it, the KL of an untrained model dominates the loss
    seed=7,  # not the seed whose images the settings were chosen on
)

# Chosen on training images of other seeds: looking twice had less error than a separate proposal,
# and better maps. Cheaper stems took less time, with more error and worse maps.
MASKED = TINY.updated(
    model="tiny_aib_masked",
    propose="twice",
    epochs=5,
    batch_size=64,
    optimizer="adamw",
    lr=6e-3,
    weight_decay=0.1,
    clip=5.0,
)

PRESETS = [
    Preset(
        "shapes_masked",
        MASKED,
        "the demo: tiny_aib_masked, which classifies only what its map opens",
        Measured((4.60,), 5.3, "aarch64 CPU"),
    ),
    Preset(
        "shapes_tiny",
        TINY,
        "tiny_aib_qt in minutes on two CPU cores",
        Measured((2.95, 4.17, 4.10), 4.7, "aarch64 CPU"),
    ),
]
