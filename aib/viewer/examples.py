"""Pictures to start with: test images of the run's data where they are here, and shapes."""

from dataclasses import dataclass

from PIL import Image

from aib.data import ImageSet, load
from aib.errors import AibError
from aib.interpret.picture import image_tile
from aib.interpret.pixels import sample
from aib.opened import Opened, images_for

OWN, SHAPES = 12, 6  # shapes beside a run's own images: something that it has never seen


@dataclass(frozen=True)
class Example:
    """One image with where it is from and what it shows, in the words of its data set."""

    image: Image.Image
    name: str


def find_examples(runs: list[Opened], seed: int = 0) -> list[Example]:
    """Of the first run whose own data is here; shapes always are, since they are generated."""
    for run in runs:
        if run.settings is None or run.settings.data == "shapes":
            continue
        try:
            own = take(images_for(run), OWN, seed)
        except (AibError, OSError):
            continue  # the data is elsewhere, and looking at a model must not need it
        return own + shapes(SHAPES)
    return shapes(OWN)


def shapes(count: int) -> list[Example]:
    """Of the embedded test images."""
    return take(load(f"shapes:count={count}", "test"), count, 0)


def take(data: ImageSet, count: int, seed: int) -> list[Example]:
    """A seeded sample, at the size of the files where there are files."""
    return [
        Example(_image(data, index), f"{data.name}, {data.split}: {_class(data, index)}")
        for index in sample(len(data), count, seed).tolist()
    ]


def _image(data: ImageSet, index: int) -> Image.Image:
    if data.files is not None:
        return data.files.decode(index)
    return Image.fromarray(image_tile(data.pixels(index)))


def _class(data: ImageSet, index: int) -> str:
    return data.class_names[int(data.labels[index])]
