"""Oxford-IIIT Pet, read from the official folder: 37 breeds of cats and dogs, with trimaps."""

import torch

from aib.data.files import check_count, read_table, require
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.objects import from_trimap
from aib.data.specs import PETS

TABLES = {"train": "trainval.txt", "test": "test.txt"}


def read(split: str, *, root: str | None = None) -> ImageSet:
    """Read one split; the border of a trimap is ignored in every score."""
    folder = require(PETS, root)
    annotations = folder / "annotations"
    # A line of a table: image, class from 1 to 37, species, breed of the species.
    tables = {name: read_table(annotations / file) for name, file in TABLES.items()}
    chosen = tables[split]
    check_count(PETS, split, len(chosen))
    rows = {image: row for table in tables.values() for image, row in table.items()}
    classes = {image: int(row.split()[0]) for image, row in rows.items()}
    names = dict(sorted((label, image.rsplit("_", 1)[0]) for image, label in classes.items()))
    trimaps = [annotations / "trimaps" / f"{image}.png" for image in chosen]
    objects = tuple(path if path.is_file() else None for path in trimaps)
    images = tuple(folder / "images" / f"{image}.jpg" for image in chosen)
    files = ImageFiles(images, objects=objects if any(objects) else (), object_values=from_trimap)
    labels = torch.tensor([classes[image] - 1 for image in chosen])
    keys = tuple(f"{image}.jpg" for image in chosen)
    return ImageSet.of(PETS, split, labels, tuple(names.values()), files=files, keys=keys)
