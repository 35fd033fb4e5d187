"""Example pictures: test images of the data that a model was trained on, if they are on disk."""

from dataclasses import dataclass

from PIL import Image

from aib.data import ImageSet
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.figures.picture import image_tile
from aib.runs.run import Run
from aib.system.files import as_text

COUNT = 12


@dataclass(frozen=True)
class Example:
    """An image of a data set."""

    image: Image.Image
    name: str  # data set, split and class


def find_examples(run: Run) -> list[Example]:
    """Test images of the run's data; none of a saved model, or where they cannot be read."""
    if run.settings is None:
        return []
    try:
        return take(run.images(), COUNT)
    except (AibError, OSError):  # the viewer works without the data
        return []


def take(data: ImageSet, count: int, seed: int = 0) -> list[Example]:
    """A seeded sample of images, at the files' own size if there are files."""
    examples = []
    for index in sample_indices(len(data), count, seed).tolist():
        if data.files is None:
            image = Image.fromarray(image_tile(data.pixels(index)))
        else:
            image = data.files.decode(index)
        label = data.class_names[int(data.labels[index])]
        examples.append(Example(image, as_text(f"{data.name}, {data.split}: {label}")))
    return examples
