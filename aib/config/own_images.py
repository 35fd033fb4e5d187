"""Settings for a user's own images if no model is named."""

from typing import Any

from aib.config.options import OPTION_NAMES
from aib.config.settings import Settings

# From a packaged model: a new head, trained on cached features, then some epochs of all layers with
# the statistics of BatchNorm as they are: in small batches, those of a few photographs are worse.
OWN = Settings(
    head_epochs=100,
    epochs=0,
    batch_size=30,
    accumulate=10,  # parts of 3 photographs; larger ones take more memory and hardly less time
    workers=0,  # each takes 0.25 GB, and is only needed to embed and to evaluate
    optimizer="adamw",
    lr=1e-3,
    lr_backbone=1e-4,
    weight_decay=0.01,
    clip=5.0,
    schedule="cosine",
    freeze_norm=True,
    channels_last=True,
)
FEW = 100  # fewer photographs get batches of 4


def own_images(
    packaged: str, recipe: dict[str, Any], images: int, gpu: bool, given: dict[str, Any]
) -> Settings:
    """The settings to learn the classes of this many images from a packaged model.

    recipe: its form, as in its config.json. given: settings that come before these.
    """
    options = {name: recipe[name] for name in OPTION_NAMES if name in recipe}
    s = OWN.updated(model=recipe["name"], init=packaged, **options)
    if "body" not in given.get("freeze", ()):
        s = s.updated(epochs=min(20, max(2, round(1250 / max(1, images)))))  # 5 for 250
    if images < FEW:
        s = s.updated(batch_size=4, accumulate=1)
    if gpu:
        s = s.updated(accumulate=1, precision="bf16", workers=8)
    if given.get("evaluator"):  # it must not know the map
        s = s.updated(init=None, head_epochs=0, epochs=20, lr_backbone=None, freeze_norm=False)
    return s.updated(**given)
