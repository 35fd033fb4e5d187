"""Example pictures: test images of the data that a model was trained on, if they are on disk."""

from PIL import Image

from aib.data import ImageSet
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.figures.picture import image_tile
from aib.runs.run import Run
from aib.viewer.scene import Example

COUNT = 12


def find_examples(run: Run) -> list[Example]:
    """Test images of the run's data; none of a saved model, or where they cannot be read."""
    if run.settings is None:
        return []
    try:
        data = run.images()
        return [_example(data, i) for i in sample_indices(len(data), COUNT, 0).tolist()]
    except (AibError, OSError):  # the viewer works without the data
        return []


def _example(data: ImageSet, index: int) -> Example:
    """An image, at its file's own size if there is a file."""
    if data.files is None:
        image = Image.fromarray(image_tile(data.pixels(index)))
    else:
        image = data.files.decode(index)
    return image, f"{data.name}, {data.split}: {data.class_names[int(data.labels[index])]}"
