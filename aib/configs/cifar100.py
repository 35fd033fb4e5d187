"""CIFAR-100: the paper's four models."""

from aib.configs.preset import table_one

PRESETS = table_one(
    "cifar100", {"vgg_aib": 21.56, "vgg_aib_qt": 20.87, "wrn_aib": 17.82, "wrn_aib_qt": 17.64}
)
