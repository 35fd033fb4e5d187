"""Cluttered shapes: small enough for two CPU cores, with masks to hold the maps against."""

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
    beta_warmup=2.0,  # at once, the KL of a fresh model would drown the rest
    seed=7,  # not that of the training and test images by which the recipe was chosen
)

PRESETS = [
    Preset(
        "shapes_tiny",
        TINY,
        "the demo: tiny_aib_qt in minutes on two CPU cores",
        Measured((2.95, 4.17, 4.10), 4.7, "aarch64 CPU"),
    )
]
