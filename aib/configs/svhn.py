"""SVHN: the paper's four models, and a faster recipe."""

from dataclasses import replace

from aib.configs.preset import FAST, FAST_WRN, Measured, Preset, table_one

# CIFAR-10's recipes, shorter, with a warm-up of about as many steps; nothing was tuned on SVHN.
# Measured on crops made from the full frames as the official ones were, not on the official files.
PRESETS = [
    *table_one("svhn"),
    Preset(
        "svhn_fast",
        replace(FAST, data="svhn", model="vgg_aib_qt", epochs=40, warmup=5.0),
        "vgg_aib_qt by a faster recipe, for one large GPU; ours on crops made anew",
        Measured((2.28,), 2.9),
    ),
    Preset(
        "svhn_wrn_fast",
        replace(FAST_WRN, data="svhn", model="wrn_aib_qt", epochs=28, warmup=3.0),
        "wrn_aib_qt by the faster recipe; ours on crops made anew",
        Measured((2.13,), 5.9),
    ),
]
