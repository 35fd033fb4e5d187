"""All presets, by data set.

cub200_full* and pets* start from ImageNet's VGG-16:

    aib train cub200_full_masked --init vgg16:PATH

PATH is a state dict of VGG-16 by torchvision's or timm's names: the file that
`torchvision.models.VGG16_Weights.IMAGENET1K_V1` names (vgg16-397923af.pth), timm's
vgg16.tv_in1k (model.safetensors), or an .npz of the convolutions. The paper starts from ImageNet
weights, too; without --init the presets of its table start from random ones.
"""

from aib.config.preset import (
    FAST,
    FAST_WRN,
    LONG_WRN,
    RELEASED_VGG,
    RELEASED_WRN,
    Measured,
    Preset,
    photographs,
    table_one,
)
from aib.config.settings import Settings
from aib.config.validation import reject_unknown

# Cluttered shapes: small enough for two CPU cores, with masks to compare the maps with.
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
DEMO = "the demo: tiny_aib_masked, which classifies only what its map opens"
SHAPES = [
    Preset("shapes_masked", MASKED, DEMO, Measured((4.60,), 5.3, "aarch64 CPU")),
    Preset(
        "shapes_tiny",
        TINY,
        "tiny_aib_qt in minutes on two CPU cores",
        Measured((2.95, 4.17, 4.10), 4.7, "aarch64 CPU"),
    ),
]

RELEASED = "as the authors' code does it"
FASTER = "vgg_aib_qt by a faster recipe, for one large GPU"
SPRINT = "vgg_aib_qt by the faster recipe with fewer epochs, for the paper's error"
FASTER_WRN = "wrn_aib_qt by the faster recipe"
LONGER_WRN = "wrn_aib_qt with TrivialAugment and more epochs, for the paper's error"
MASKED_VGG = "vgg_aib_masked by the faster recipe: only what its map opens is classified"
HALF_OPEN = {"model": "vgg_aib_masked", "area": 0.5}
HALF = FAST.updated(data="cifar10", width=0.5, epochs=80, cutout=8, holdout=0.1)
CIFAR10 = [
    *table_one("cifar10"),
    Preset("cifar10_vgg_aib_qt_released", RELEASED_VGG.updated(data="cifar10"), RELEASED),
    Preset("cifar10_wrn_aib_qt_released", RELEASED_WRN.updated(data="cifar10"), RELEASED),
    Preset("cifar10_fast", FAST.updated(data="cifar10"), FASTER, Measured((3.58, 3.33, 3.39), 6.4)),
    # Several runs shared the GPU: alone it takes less than four minutes.
    Preset(
        "cifar10_sprint",
        FAST.updated(data="cifar10", epochs=78, warmup=5.0, alternate_flip=True),
        SPRINT,
        Measured((3.73, 3.65), 6.1),
    ),
    Preset(
        "cifar10_wrn_fast", FAST_WRN.updated(data="cifar10"), FASTER_WRN, Measured((4.26,), 7.5)
    ),
    # Smaller runs shared the GPU: alone it takes about 18 minutes.
    Preset(
        "cifar10_wrn_long", LONG_WRN.updated(data="cifar10"), LONGER_WRN, Measured((2.76,), 23.5)
    ),
    # Several runs shared the GPU: alone it takes about six minutes.
    Preset(
        "cifar10_masked",
        FAST.updated(data="cifar10", **HALF_OPEN),
        MASKED_VGG,
        Measured((5.15, 5.03, 5.08), 9.7),
    ),
    Preset(
        "cifar10_small",
        HALF,
        "vgg_aib_qt at half width, for a CPU; `aib eval RUN` has its test error",
        Measured((5.28,), 4.9),
    ),
]

# With a tenth of the images per class, the usual cut-out is half as wide.
WITH_100 = {"data": "cifar100", "cutout": 8}
CIFAR100 = [
    *table_one("cifar100"),
    Preset("cifar100_fast", FAST.updated(**WITH_100), FASTER, Measured((20.51, 20.21, 20.24), 6.2)),
    # Smaller runs shared the GPU: alone it takes about six minutes.
    Preset(
        "cifar100_masked",
        FAST.updated(**WITH_100, **HALF_OPEN),
        MASKED_VGG,
        Measured((25.22, 25.84, 25.31), 7.4),
    ),
    Preset("cifar100_wrn_fast", FAST_WRN.updated(**WITH_100), FASTER_WRN, Measured((20.01,), 13.2)),
    Preset(
        "cifar100_wrn_long", LONG_WRN.updated(data="cifar100"), LONGER_WRN, Measured((16.49,), 18.3)
    ),
]

# CIFAR-10's recipes, shorter, with a warm-up of about as many steps; nothing was tuned on SVHN.
# Measured on crops made from the full frames as the official ones were, not on the official files.
SVHN = [
    *table_one("svhn"),
    Preset(
        "svhn_fast",
        FAST.updated(data="svhn", epochs=40, warmup=5.0),
        f"{FASTER}; ours on crops made anew",
        Measured((2.28,), 2.9),
    ),
    Preset(
        "svhn_wrn_fast",
        FAST_WRN.updated(data="svhn", epochs=28, warmup=3.0),
        f"{FASTER_WRN}; ours on crops made anew",
        Measured((2.13,), 5.9),
    ),
]

# The paper crops CUB-200-2011 to the birds' boxes; cub200_full* see whole images. Without a warm-up
# of beta the latent of the paper's form collapsed, in a run that was given up.
# Up to eight runs shared the GPU: alone each takes one to two minutes.
CUB200 = [
    *table_one("cub200", ":crop"),
    *photographs(
        "cub200_full",
        "cub200",
        ours={
            "vgg": Measured((30.1346, 30.2554, 30.3417), 3.7),
            "vgg_aib_qt": Measured((30.1519, 31.46, 32.76), 3.8),
            "vgg_aib_masked": Measured((28.2879, 29.1163, 28.5295), 5.6),
        },
        beta_warmup=15.0,
    ),
]

# Measured on photographs that were re-encoded (results/pets.json says how).
PETS = photographs(
    "pets",
    "pets",
    ours={
        "vgg": Measured((13.11,), 2.1),
        "vgg_aib_qt": Measured((13.46,), 0.9),
        "vgg_aib_masked": Measured((14.58,), 2.5),
    },
)

PRESETS = {p.name: p for p in (*SHAPES, *CIFAR10, *CIFAR100, *SVHN, *CUB200, *PETS)}


def get_preset(name: str) -> Preset:
    """A preset by name; the error for an unknown name lists the closest ones."""
    reject_unknown([name], PRESETS, "no preset", "aib train --list")
    return PRESETS[name]
