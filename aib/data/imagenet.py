"""The 1,000 classes of ImageNet (ILSVRC 2012): index, WordNet number and a unique English name."""

import csv
from functools import cache
from pathlib import Path


@cache
def imagenet_classes() -> dict[str, str]:
    """Name of each class by its WordNet number, such as n01440764, in the order of the indices."""
    path = Path(__file__).with_name("imagenet_classes.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return {row["wordnet"]: row["name"] for row in csv.DictReader(file)}


def class_names(count: int) -> tuple[str, ...]:
    """The names of ImageNet's classes for as many classes, else numbers."""
    names = tuple(imagenet_classes().values())
    return names if count == len(names) else tuple(map(str, range(count)))
