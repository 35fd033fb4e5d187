"""Example pictures: test images of the run's data if they are on disk, and shapes."""

from dataclasses import dataclass

from PIL import Image

from aib.config.settings import Settings
from aib.data import ImageSet, load
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.figures.picture import image_tile
from aib.models.weights import CONFIG, read_config
from aib.runs.run import Run
from aib.system.files import as_text

OWN, SHAPES = 12, 6  # shapes beside a run's own images: something that it has never seen


@dataclass(frozen=True)
class Example:
    """An image of a data set."""

    image: Image.Image
    name: str  # data set, split and class
    label: str = ""  # class


def find_examples(runs: list[Run]) -> list[Example]:
    """Test images of the first run whose data is on disk, and shapes, which are generated."""
    for run in runs:
        data = training_data(run)
        if data is None or data == "shapes":
            continue
        try:
            own = take(run.images(data), OWN, seed=0)
        except (AibError, OSError):
            continue  # the viewer works without the data
        return own + shapes(SHAPES)
    return shapes(OWN)


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


def unknown_classes(runs: list[Run], examples: list[Example]) -> str:
    """A warning if no example shows a class of some model; empty otherwise."""
    shown = {example.label for example in examples}
    known = {run.label: set(run.model.preprocessing.class_names) for run in runs}
    names = [label for label, classes in known.items() if classes and not shown & classes]
    if not names:
        return ""
    return (
        f"The examples show none of the classes of {' and '.join(names)}: its decisions on them "
        "are wrong, however confident."
    )


def shapes(count: int) -> list[Example]:
    return take(load(f"shapes:count={count}", "test"), count, 0)


def take(data: ImageSet, count: int, seed: int) -> list[Example]:
    """A seeded sample of images, at the files' own size if there are files."""
    examples = []
    for index in sample_indices(len(data), count, seed).tolist():
        if data.files is None:
            image = Image.fromarray(image_tile(data.pixels(index)))
        else:
            image = data.files.decode(index)
        label = data.class_names[int(data.labels[index])]
        examples.append(Example(image, as_text(f"{data.name}, {data.split}: {label}"), label))
    return examples
