"""Settings for a user's own images if no model is named: what this machine can train."""

from aib.configs.shapes import MASKED
from aib.settings import Settings

# Folders are small: beta rises over half of the training, else the KL closes the latent first.
SMALL = MASKED.updated(epochs=30, batch_size=16, beta_warmup=15.0, evaluate_every=5, seed=0)

# Not measured yet. VGG-16 has no BatchNorm, so from random weights it needs a low rate.
LARGE = SMALL.updated(
    model="vgg_aib_masked",
    batch_size=64,
    lr=2e-4,
    weight_decay=0.05,
    warmup=3.0,
    precision="bf16",
    workers=8,
)


def own_images(gpu: bool) -> tuple[int, Settings]:
    """Image size and settings."""
    return (224, LARGE) if gpu else (64, SMALL)
