"""Example pictures: test images of the data that a model was trained on, if they are on disk."""

from dataclasses import dataclass

from PIL import Image

from aib.config.settings import Settings
from aib.data import ImageSet
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.figures.picture import image_tile
from aib.models.weights import CONFIG, read_config
from aib.runs.run import Run
from aib.system.files import as_text

COUNT = 12


@dataclass(frozen=True)
class Example:
    """An image of a data set."""

    image: Image.Image
    name: str  # data set, split and class


def find_examples(runs: list[Run]) -> list[Example]:
    """Test images of the first run whose data can be read; none without such a run."""
    for run in runs:
        data = training_data(run)
        if data is None:
            continue
        try:
            return take(run.images(data), COUNT)
        except (AibError, OSError):
            continue  # the viewer works without the data
    return []


def training_data(run: Run) -> str | None:
    """The data set that a run's settings or a packaged model's recipe names."""
    if run.settings is not None:
        return run.settings.data
    path = run.folder / CONFIG
    trained = read_config(path).get("trained") if path.is_file() else None
    recipe = trained.get("recipe") if isinstance(trained, dict) else None
    if not isinstance(recipe, dict):
        return None
    data = recipe.get("data", Settings().data)  # a recipe leaves out defaults
    return data if isinstance(data, str) else None


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
