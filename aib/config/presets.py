"""All presets: runnable claims of settings and the paper's result, by data set.

cub200_full* and pets* start from ImageNet's VGG-16, by --init vgg16:PATH: a state dict by the names
of torchvision or timm (.pth, .safetensors), or an .npz of the convolutions. The paper starts from
ImageNet weights, too; without --init the presets of its table start from random ones. Those of
EfficientNet-Lite start from --init lite0:PATH or lite2:PATH.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aib.config.paper import paper_error
from aib.config.settings import Settings
from aib.config.validation import reject_unknown


@dataclass(frozen=True)
class Preset:
    """Named settings, run by `aib train NAME`."""

    name: str
    settings: Settings
    about: str

    @cached_property
    def recipe(self) -> Mapping[str, Any]:
        """What its settings change in the defaults."""
        return self.settings.recipe()

    @property
    def paper_error(self) -> float | None:
        """The paper's top-1 test error in percent; None for a model of another form."""
        return paper_error(self.settings.model, self.settings.data, self.recipe)


# The paper's schedules (supplementary, "Training"): 200 epochs of batch 128, SGD 0.1.
PAPER_VGG = Settings()
PAPER_WRN = PAPER_VGG.updated(model="wrn_aib_qt", milestones=(60, 120, 180), gamma=0.3)
# What the released code does instead: for vgg_aib_qt two epochs of warm-up, and each step an epoch
# early (its scheduler steps before the first epoch); for WRN steps at other epochs.
RELEASED_VGG = PAPER_VGG.updated(
    profile="released", warmup=2.0, milestones=tuple(range(24, 200, 25))
)
RELEASED_WRN = PAPER_WRN.updated(profile="released", milestones=(60, 120, 160), gamma=0.2)
# Ours, for one large GPU: larger batches, a cosine, fewer epochs, bf16, compiled, CUDA graphs. The
# cut-out is the one augmentation that the paper does not have.
FAST = PAPER_VGG.updated(
    batch_size=256,
    lr=0.15,
    schedule="cosine",
    warmup=10.0,
    epochs=140,
    clip=2.0,
    cutout=16,
    precision="bf16",
    channels_last=True,
    compile=True,
    graphs=True,
)
# With FAST's batches and WRN's dropout wrn_aib_qt still had 5% training error on CIFAR-10.
FAST_WRN = FAST.updated(
    model="wrn_aib_qt", epochs=50, warmup=5.0, batch_size=128, lr=0.1, dropout=0.0
)
# By FAST_WRN the training error on CIFAR-100 was 1%, the test error 20%: more augmentation.
LONG_WRN = FAST_WRN.updated(
    epochs=120, trivial_augment=True, cutout=16, ema=0.999, ema_batch_norm=100
)

# Ours for photographs: VGG-16 from ImageNet, its layers at a tenth of the learning rate of new
# ones, and BatchNorm before the head. The head of plain and masked models gets one average per
# channel: with the paper's 3 x 3 it overfits (22% error on pets instead of 15%).
PHOTOS = PAPER_VGG.updated(
    epochs=30,
    batch_size=64,
    lr=0.03,
    lr_backbone=0.003,
    schedule="cosine",
    warmup=1.5,
    weight_decay=1e-4,
    label_smoothing=0.1,
    clip=5.0,
    head_norm=True,
    precision="bf16",
    channels_last=True,
    compile=True,
)

# EfficientNet-Lite copes with ten times VGG's rate; new layers have five times that of others.
LITE = PHOTOS.updated(lr=0.2, lr_backbone=0.04, head_norm=False, graphs=True)

ABOUT = {
    "vgg_aib": "VGG with attention and a bottleneck",
    "vgg_aib_qt": "the same, attention quantised to 20 levels",
    "wrn_aib": "WRN with attention and a bottleneck",
    "wrn_aib_qt": "the same, attention quantised to 50 levels",
}


def table_one(data: str, options: str = "") -> list[Preset]:
    """Presets of the paper's own models in its Table 1: one data set, four models."""
    base = {"vgg": PAPER_VGG, "wrn": PAPER_WRN}
    return [
        Preset(f"{data}_{name}", base[name[:3]].updated(data=data + options, model=name), about)
        for name, about in ABOUT.items()
    ]


def photographs(name: str, data: str, beta_warmup: float = 0.0) -> list[Preset]:
    """Presets of one data set of photographs: the plain network, the paper's form, the masked one.

    They share a recipe, and each needs --init vgg16:PATH.
    """
    pooled = PHOTOS.updated(data=data, pool_size=1)
    capped = pooled.updated(budget="image")
    papers = PHOTOS.updated(data=data, beta_warmup=beta_warmup)
    presets = [
        ("", "vgg", pooled, "VGG-16 from ImageNet"),
        ("_aib_qt", "vgg_aib_qt", papers, "the same with quantised attention and a bottleneck"),
        ("_masked", "vgg_aib_masked", capped, "the same, only what its map opens is classified"),
    ]
    return [
        Preset(name + suffix, settings.updated(model=model), about)
        for suffix, model, settings, about in presets
    ]


def cropped() -> list[Preset]:
    """Presets of Table 1's CUB-200 by our recipe for photographs; each needs --init vgg16:PATH.

    Chosen on held-out training images: the smaller weight of the bottleneck, and one average per
    channel (33% error with 3 x 3 of them, 27% with one).
    """
    plain = PHOTOS.updated(
        data="cub200:crop",
        pool_size=1,
        lr_backbone=0.01,
        epochs=40,
        trivial_augment=True,
        ema=0.998,
        ema_batch_norm=50,
    )
    bottleneck = plain.updated(beta=0.001, beta_warmup=15.0)
    forms = {
        "vgg": "VGG-16 from ImageNet",
        "vgg_dvib": "the same with a bottleneck",
        "vgg_aib": "the same with attention and a bottleneck",
        "vgg_aib_qt": "the same, attention quantised",
    }
    return [
        Preset(
            f"cub200_crops{model.removeprefix('vgg')}",
            (plain if model == "vgg" else bottleneck).updated(model=model),
            about,
        )
        for model, about in forms.items()
    ]


def light(data: str, **changes: Any) -> list[Preset]:
    """Presets of EfficientNet-Lite on photographs, plain and masked; each needs --init."""
    about = "EfficientNet-Lite from ImageNet", "the same, only what its map opens is classified"
    return [
        Preset(f"{data}_{name}{form}", LITE.updated(data=data, model=name + form, **changes), text)
        for name in ("lite0", "lite2")
        for form, text in zip(("", "_masked"), about, strict=True)
    ]


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
# and better maps. Cheaper stems took less time, with more error and worse maps. A budget for the
# mean with batches of 32 had less error than a cap with batches of 64, and rounding costs less.
# Four epochs at this width take less time than seven at width 1, with maps that fit better.
MASKED = TINY.updated(
    model="tiny_aib_masked",
    propose="twice",
    budget="mean",
    width=1.5,
    epochs=4,
    optimizer="adamw",
    lr=4e-3,
    weight_decay=0.1,
    clip=5.0,
)
DEMO = "the demo: tiny_aib_masked, which classifies only what its map opens"
SHAPES = [
    Preset("shapes_masked", MASKED, DEMO),
    Preset("shapes_tiny", TINY, "tiny_aib_qt in minutes on two CPU cores"),
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
    Preset("cifar10_fast", FAST.updated(data="cifar10"), FASTER),
    Preset(
        "cifar10_sprint",
        FAST.updated(data="cifar10", epochs=78, warmup=5.0, alternate_flip=True),
        SPRINT,
    ),
    Preset("cifar10_wrn_fast", FAST_WRN.updated(data="cifar10"), FASTER_WRN),
    Preset("cifar10_wrn_long", LONG_WRN.updated(data="cifar10"), LONGER_WRN),
    Preset("cifar10_masked", FAST.updated(data="cifar10", **HALF_OPEN), MASKED_VGG),
    Preset(
        "cifar10_small",
        HALF,
        "vgg_aib_qt at half width, for a CPU; `aib eval RUN` has its test error",
    ),
]

# With a tenth of the images per class, the usual cut-out is half as wide.
WITH_100 = {"data": "cifar100", "cutout": 8}
CIFAR100 = [
    *table_one("cifar100"),
    Preset("cifar100_fast", FAST.updated(**WITH_100), FASTER),
    Preset("cifar100_masked", FAST.updated(**WITH_100, **HALF_OPEN), MASKED_VGG),
    Preset("cifar100_wrn_fast", FAST_WRN.updated(**WITH_100), FASTER_WRN),
    Preset("cifar100_wrn_long", LONG_WRN.updated(data="cifar100"), LONGER_WRN),
]

# CIFAR-10's recipes, shorter, with a warm-up of about as many steps; nothing was tuned on SVHN.
SVHN = [
    *table_one("svhn"),
    Preset("svhn_fast", FAST.updated(data="svhn", epochs=40, warmup=5.0), FASTER),
    Preset("svhn_wrn_fast", FAST_WRN.updated(data="svhn", epochs=28, warmup=3.0), FASTER_WRN),
]

# The paper crops CUB-200-2011 to the birds' boxes; cub200_full* see whole images. Without a warm-up
# of beta the latent of the paper's form collapsed, in a run that was given up.
CUB200 = [
    *table_one("cub200", ":crop"),
    *photographs("cub200_full", "cub200", beta_warmup=15.0),
    *cropped(),
    *light("cub200"),
]

PETS = [*photographs("pets", "pets"), *light("pets", lr=0.1, lr_backbone=0.02)]

# For the student of a teacher, whose weights it starts from, also in the layers that find the map.
# Statistics of a batch instead of BatchNorm's own change half of EfficientNet-Lite2's predictions.
DISTILLED = Settings(
    model="lite2_masked",
    freeze_norm=True,
    epochs=20,
    batch_size=32,
    optimizer="adamw",
    lr=6e-3,
    lr_backbone=5e-5,  # with 2e-4 the classifier forgets what the photographs do not show
    weight_decay=0.01,
    schedule="cosine",
    warmup=1.0,
    clip=5.0,
)

PRESETS = {p.name: p for p in (*SHAPES, *CIFAR10, *CIFAR100, *SVHN, *CUB200, *PETS)}


def get_preset(name: str) -> Preset:
    """A preset by name; the error for an unknown name lists the closest ones."""
    reject_unknown([name], PRESETS, "no preset", "aib train --list")
    return PRESETS[name]
