"""Data sets: generated, official, and the user's own."""

from aib.data.batches import Batches
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.load import has_test, load
from aib.data.specs import SPECS, Spec

__all__ = ["SPECS", "Batches", "ImageFiles", "ImageSet", "Spec", "has_test", "load"]
