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

# On held-out images of seed 0 AdamW had half the error of the recipe above at mid-training.
# noise_std 0.5 gave half the error at the end, but the decision then hung on faint values of the
# mask: rounding it to 0 and 1 cost 9 points and more, with noise_std 1 about 3.
MASKED = TINY.updated(model="tiny_aib_masked", optimizer="adamw", lr=4e-3, weight_decay=0.01)

PRESETS = [
    Preset(
        "shapes_masked",
        MASKED,
        "tiny_aib_masked: only what its map opens is classified",
        Measured((10.20,), 9.8, "aarch64 CPU"),
    ),
    Preset(
        "shapes_tiny",
        TINY,
        "the demo: tiny_aib_qt in minutes on two CPU cores",
        Measured((2.95, 4.17, 4.10), 4.7, "aarch64 CPU"),
    ),
]
