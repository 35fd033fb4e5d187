"""Pictures to start with: test images of the run's data where they are here, and shapes."""

from dataclasses import dataclass

from PIL import Image

from aib.data import ImageSet, load
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.figures.picture import image_tile
from aib.runs import Run
from aib.settings import Settings
from aib.weights import CONFIG, read_config

OWN, SHAPES = 12, 6  # shapes beside a run's own images: something that it has never seen


@dataclass(frozen=True)
class Example:
    """One image with where it is from and what it shows, in the words of its data set."""

    image: Image.Image
    name: str
    label: str = ""  # its class


def find_examples(runs: list[Run], seed: int = 0) -> list[Example]:
    """Of the first run whose own data is here; shapes always are, since they are generated."""
    for run in runs:
        data = data_of(run)
        if data is None or data == "shapes":
            continue
        try:
            own = take(run.images(data), OWN, seed)
        except (AibError, OSError):
            continue  # the data is elsewhere, and looking at a model must not need it
        return own + shapes(SHAPES)
    return shapes(OWN)


def data_of(run: Run) -> str | None:
    """What a model was trained on: a run's settings say it, and a packaged model's recipe."""
    if run.settings is not None:
        return run.settings.data
    path = run.folder / CONFIG
    trained = read_config(path).get("trained") if path.is_file() else None
    recipe = trained.get("recipe") if isinstance(trained, dict) else None
    if not isinstance(recipe, dict):
        return None
    data = recipe.get("data", Settings().data)  # a recipe leaves out what is the default
    return data if isinstance(data, str) else None


def strangers(runs: list[Run], examples: list[Example]) -> str:
    """A sentence where no example shows a class of some model, whose answers then mislead."""
    shown = {example.label for example in examples}
    known = {run.label: set(run.model.preprocessing.class_names) for run in runs}
    names = [label for label, classes in known.items() if classes and not shown & classes]
    if not names:
        return ""
    return (
        f"These are not pictures of the classes of {' and '.join(names)}: an answer to them is "
        "wrong, however sure."
    )


def shapes(count: int) -> list[Example]:
    """Of the embedded test images."""
    return take(load(f"shapes:count={count}", "test"), count, 0)


def take(data: ImageSet, count: int, seed: int) -> list[Example]:
    """A seeded sample, at the size of the files where there are files."""
    return [
        Example(
            _image(data, index),
            f"{data.name}, {data.split}: {_class(data, index)}",
            _class(data, index),
        )
        for index in sample_indices(len(data), count, seed).tolist()
    ]


def _image(data: ImageSet, index: int) -> Image.Image:
    if data.files is not None:
        return data.files.decode(index)
    return Image.fromarray(image_tile(data.pixels(index)))


def _class(data: ImageSet, index: int) -> str:
    return data.class_names[int(data.labels[index])]
