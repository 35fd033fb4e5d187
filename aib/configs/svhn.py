"""SVHN: the paper's four models."""

from aib.configs.preset import table_one

PRESETS = table_one(
    "svhn", {"vgg_aib": 3.24, "vgg_aib_qt": 3.07, "wrn_aib": 2.76, "wrn_aib_qt": 2.69}
)
