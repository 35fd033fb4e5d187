"""CIFAR-10: the paper's four models, the released code's schedules, and a faster recipe."""

from dataclasses import replace

from aib.configs.preset import FAST, RELEASED_VGG, RELEASED_WRN, Preset, table_one

ERRORS = {"vgg_aib": 4.28, "vgg_aib_qt": 4.10, "wrn_aib": 3.60, "wrn_aib_qt": 3.43}

PRESETS = [
    *table_one("cifar10", ERRORS),
    Preset(
        "cifar10_vgg_aib_qt_released",
        replace(RELEASED_VGG, data="cifar10", model="vgg_aib_qt"),
        "as the authors' code does it",
        ERRORS["vgg_aib_qt"],
    ),
    Preset(
        "cifar10_wrn_aib_qt_released",
        replace(RELEASED_WRN, data="cifar10", model="wrn_aib_qt"),
        "as the authors' code does it",
        ERRORS["wrn_aib_qt"],
    ),
    Preset(
        "cifar10_fast",
        replace(FAST, data="cifar10", model="vgg_aib_qt"),
        "vgg_aib_qt by a faster recipe, for one large GPU",
        ERRORS["vgg_aib_qt"],
    ),
]
