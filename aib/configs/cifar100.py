"""CIFAR-100: the paper's four models, and a faster recipe."""

from aib.configs.preset import FAST, FAST_WRN, Measured, Preset, table_one

# With a tenth of the images per class, the usual cut-out is half as wide.
PRESETS = [
    *table_one("cifar100"),
    Preset(
        "cifar100_fast",
        FAST.updated(data="cifar100", model="vgg_aib_qt", cutout=8),
        "vgg_aib_qt by a faster recipe, for one large GPU",
        Measured((20.51,), 6.1),
    ),
    Preset(
        "cifar100_wrn_fast",
        FAST_WRN.updated(data="cifar100", model="wrn_aib_qt", cutout=8),
        "wrn_aib_qt by the faster recipe",
        Measured((20.01,), 13.2),
    ),
]
