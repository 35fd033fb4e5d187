"""Data sets: generated, official, and the user's own."""

from aib.data.batches import Batch, Batches
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.load import has_split, load, require_trainable, same_images
from aib.data.own import Prepared, adapt, from_dataset
from aib.data.specs import SPECS, Spec

__all__ = [
    "SPECS",
    "Batch",
    "Batches",
    "ImageFiles",
    "ImageSet",
    "Prepared",
    "Spec",
    "adapt",
    "from_dataset",
    "has_split",
    "load",
    "require_trainable",
    "same_images",
]
