"""CIFAR-10: the paper's four models, the released code's schedules, and a faster recipe."""

from aib.configs.preset import (
    FAST,
    FAST_WRN,
    RELEASED_VGG,
    RELEASED_WRN,
    Measured,
    Preset,
    table_one,
)

PRESETS = [
    *table_one("cifar10"),
    Preset(
        "cifar10_vgg_aib_qt_released",
        RELEASED_VGG.updated(data="cifar10", model="vgg_aib_qt"),
        "as the authors' code does it",
    ),
    Preset(
        "cifar10_wrn_aib_qt_released",
        RELEASED_WRN.updated(data="cifar10", model="wrn_aib_qt"),
        "as the authors' code does it",
    ),
    Preset(
        "cifar10_fast",
        FAST.updated(data="cifar10", model="vgg_aib_qt"),
        "vgg_aib_qt by a faster recipe, for one large GPU",
        Measured((3.58, 3.33, 3.39), 6.4),
    ),
    Preset(
        "cifar10_wrn_fast",
        FAST_WRN.updated(data="cifar10", model="wrn_aib_qt"),
        "wrn_aib_qt by the faster recipe",
        Measured((4.26,), 7.5),
    ),
    Preset(
        "cifar10_small",
        FAST.updated(
            data="cifar10",
            model="vgg_aib_qt",
            width=0.5,
            epochs=80,
            cutout=8,
            holdout=0.1,
        ),
        "vgg_aib_qt at half width, for a CPU; `aib eval RUN` has its test error",
        Measured((5.28,), 4.9),
    ),
]
