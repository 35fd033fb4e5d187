"""Example pictures: photographs that lie beside a model, or test images of a run's data."""

from pathlib import Path

from PIL import Image

from aib.data import ImageSet
from aib.data.decode import open_rgb
from aib.data.folder import image_files
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.figures.picture import image_tile
from aib.runs.run import Run
from aib.viewer.scene import Example

COUNT = 12
PHOTOGRAPHS = "photographs"  # in a saved model's folder
SOURCE = "SOURCE.txt"  # beside them, a line for each: NAME.jpg: where it is from, its licence


def find_examples(run: Run) -> list[Example]:
    """A saved model's photographs, or test images of the run's data where they can be read."""
    try:
        if run.settings is None:
            return _photographs(run.folder / PHOTOGRAPHS)
        data = run.images()
        return [_example(data, i) for i in sample_indices(len(data), COUNT, 0).tolist()]
    except (AibError, OSError):  # the viewer works without examples
        return []


def _photographs(folder: Path) -> list[Example]:
    """The images of the folder, each with its source and name."""
    files = image_files(folder)
    lines = (folder / SOURCE).read_text(encoding="utf-8").splitlines() if files else []
    sources = dict(line.split(": ", 1) for line in lines if ": " in line)
    return [(open_rgb(f), f"{sources.get(f.name, '')}: {f.stem.replace('_', ' ')}") for f in files]


def _example(data: ImageSet, index: int) -> Example:
    """An image, at its file's own size if there is a file."""
    if data.files is None:
        image = Image.fromarray(image_tile(data.pixels(index)))
    else:
        image = data.files.decode(index)
    return image, f"{data.name}, {data.split}: {data.class_names[int(data.labels[index])]}"
