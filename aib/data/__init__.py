"""Data sets: generated, official and the user's own, read by `load` into an ImageSet.

`Batches` gives an ImageSet to training and evaluation.
"""

from aib.data.batches import Batch, Batches
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.load import count_images, has_split, load, same_images, with_size
from aib.data.own import as_images
from aib.data.specs import SPECS, Spec

__all__ = [
    "SPECS",
    "Batch",
    "Batches",
    "ImageFiles",
    "ImageSet",
    "Spec",
    "as_images",
    "count_images",
    "has_split",
    "load",
    "same_images",
    "with_size",
]
