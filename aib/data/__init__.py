"""Data sets: generated, official and the user's own, read by `load` into an ImageSet.

`Batches` gives an ImageSet to training and evaluation.
"""

from aib.data.batches import Batch as Batch, Batches as Batches
from aib.data.imageset import ImageFiles as ImageFiles, ImageSet as ImageSet
from aib.data.load import (
    count_images as count_images,
    has_split as has_split,
    load as load,
    same_images as same_images,
    with_size as with_size,
)
from aib.data.own import as_images as as_images
from aib.data.specs import SPECS as SPECS, Spec as Spec
