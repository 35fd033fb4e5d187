"""Settings for a user's own images if no model is named: what this machine can train."""

from aib.config.options import ModelOptions
from aib.config.presets import TINY
from aib.config.settings import Settings

# The packaged model with a new head; its classifier's convolutions and its map stay as they are.
# Chosen on held-out photographs at 112 pixels on a CPU: the epochs on birds, with an earlier
# packaged model; the learning rate of the head on other birds and on ten classes of ImageNet. One
# run is in results/own_photos.json; on a GPU there is none yet.
WARM = Settings(
    model="vgg_aib_masked",
    options=ModelOptions(head_norm=True, pool_size=1),
    init="pets_masked",
    freeze=("body", "propose"),
    epochs=5,
    batch_size=16,
    optimizer="adamw",
    lr=5e-3,  # of the head alone
    weight_decay=0.01,
    schedule="cosine",
    channels_last=True,
    evaluate_every=5,
)
SMALLEST = 112  # pixels for which that model is made

# For smaller images, from random weights and with a map of 16 x 16. Folders are small: beta rises
# over half of the training, else the KL closes the latent first. Length and proposal were chosen on
# two folders of 600 images, shapes and four classes of CIFAR-10, by images set aside from training.
SMALL = TINY.updated(
    model="tiny_aib_masked",
    propose="twice",
    epochs=60,
    batch_size=16,
    optimizer="adamw",
    lr=4e-3,
    weight_decay=0.01,
    beta_warmup=30.0,
    evaluate_every=5,
    seed=0,
)


def largest_size(gpu: bool) -> int:
    """The image size of the default model."""
    return 224 if gpu else SMALLEST


def own_images(gpu: bool, image_size: int, head_only: bool = True) -> Settings:
    """The settings for images of this size; `head_only`: the rest of the model stays as it is."""
    if image_size < SMALLEST:
        return SMALL
    s = WARM if head_only else WARM.updated(freeze=(), lr=1e-3)
    return s.updated(epochs=20, precision="bf16", workers=8) if gpu else s
