"""Imagenette, read from the official folder: ten classes of ImageNet, one sub-folder for each."""

import torch

from aib.data.files import check_count, require
from aib.data.image_files import image_files
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.specs import IMAGENETTE

# The sub-folders (WordNet's numbers), in the order of the spec's class names.
FOLDERS = """
    n01440764 n02102040 n02979186 n03000684 n03028079 n03394916 n03417042 n03425413 n03445777
    n03888257
""".split()


def read(split: str, *, root: str | None = None, partial: bool = False) -> ImageSet:
    """Read one split; the official `val` is `test` here, since `val` is held out of `train`."""
    top = require(IMAGENETTE, root) / ("val" if split == "test" else split)
    found = [(path, i) for i, name in enumerate(FOLDERS) for path in image_files(top / name)]
    check_count(IMAGENETTE, split, len(found), partial)
    labels = torch.tensor([label for _, label in found], dtype=torch.int64)
    return ImageSet.of(IMAGENETTE, split, labels, files=ImageFiles(tuple(p for p, _ in found)))
