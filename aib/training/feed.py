"""The images of a training: what a user gives, as batches for each process."""

from dataclasses import replace
from typing import Any

from lightning.fabric import Fabric

from aib.config.settings import Settings
from aib.data import Batches, ImageSet, Prepared, adapt
from aib.errors import AibError
from aib.models.classifier import Classifier


def adapt_images(data: Any, model: Classifier, s: Settings, **options: Any) -> ImageSet | Prepared:
    """`adapt` for a model and the batch size of the settings; both need the same classes."""
    size = s.batch_size // s.accumulate
    images = adapt(data, model.preprocessing, model.num_classes, batch_size=size, **options)
    if images.num_classes != model.num_classes:
        raise AibError(
            f"the data has {images.num_classes} classes and the model {model.num_classes}"
        )
    return images


def settings_of_tensors(s: Settings, data: Prepared) -> Settings:
    """The batch size is the loader's; what changes pixels, or shares them out, is an error."""
    pixels = (s.cutout, s.trivial_augment, s.alternate_flip, s.devices * s.nodes > 1)
    if any(pixels):
        raise AibError("normalised tensors are neither augmented nor shared out: give PIL images")
    return replace(s, batch_size=data.batch_size * s.accumulate)


def training_batches(data: ImageSet, s: Settings, fabric: Fabric) -> Batches:
    """This process's share of the images, augmented as the settings say."""
    return Batches(
        data,
        s.batch_size // (fabric.world_size * s.accumulate),
        train=True,
        device=fabric.device,
        seed=s.seed,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
        workers=s.workers,
        pad=None if s.augment else 0,
        flip=None if s.augment else False,
        cutout=s.cutout if s.augment else 0,
        trivial_augment=s.trivial_augment and s.augment,
        alternate_flip=s.alternate_flip,
        cache=s.cache,
    )
