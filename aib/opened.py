"""A trained model, opened: its folder, its settings, and images as it takes them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch

from aib.classifier import Classifier
from aib.data import ImageSet, has_split, load, same_images
from aib.errors import AibError
from aib.evaluate import fit_classes
from aib.pretrained import CONFIG, WEIGHTS, from_pretrained, read_config
from aib.run import read_settings
from aib.settings import Settings


@dataclass(frozen=True)
class Opened:
    """A run or a saved model, loaded."""

    folder: Path
    label: str  # tells it from the others
    name: str  # of the model
    model: Classifier
    settings: Settings | None  # None for a saved model that is not a run

    @property
    def checksum(self) -> str:
        """SHA-256 of the weights."""
        return sha256(self.folder / WEIGHTS)


def open_runs(folders: tuple[Path, ...], device: str | None = None) -> list[Opened]:
    """Load the runs, each with a label of its own."""
    missing = [folder for folder in folders if not (folder / CONFIG).is_file()]
    if missing:
        raise AibError(f"{missing[0]} is not a run: it has no {CONFIG}")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise AibError("the same run is named twice")
    names = [folder.resolve().name for folder in folders]
    where = pick_device(device)
    opened = []
    for folder, name in zip(folders, names, strict=True):
        config = read_config(folder / CONFIG)
        model = from_pretrained(folder).to(where)
        opened.append(
            Opened(
                folder=folder,
                label=name if names.count(name) == 1 else str(folder),
                name=model_name(model),
                model=model,
                settings=read_settings(folder) if "settings" in config else None,
            )
        )
    return opened


def model_name(model: Classifier) -> str:
    """The name it was created by, or what it is."""
    return str(model.recipe.get("name", type(model).__name__))


def pick_device(name: str | None) -> torch.device:
    """The one named, or the best there is."""
    here = torch.cuda.is_available()
    try:
        device = torch.device(name or ("cuda" if here else "cpu"))
    except RuntimeError as error:
        raise AibError(f"no device {name!r}; take cpu or cuda") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise AibError(f"models do not run on the device {name!r}; take cpu or cuda")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise AibError("there is no Apple GPU here; leave --device out or say --device cpu")
    if device.type == "cuda" and not here:
        raise AibError("there is no CUDA device here; leave --device out or say --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise AibError(f"there is no {name}: this machine has {torch.cuda.device_count()}")
    return device


def images_for(
    opened: Opened,
    data: str | None = None,
    split: str | None = None,
    root: str | None = None,
    like: Opened | None = None,
) -> ImageSet:
    """A run's own data or the data named, as its model takes it; the labels are the data's.

    Without a `split` the test images; where a folder has none, what its own run kept aside or,
    for any other run, all of it.

    `like` is the run whose seed and folders count: runs that are compared see the same images.
    """
    settings = (like or opened).settings
    name = data or (settings.data if settings else None)
    if name is None:
        raise AibError(f"{opened.folder} is a saved model, not a run: name its data with --data")
    if settings is not None and same_images(name, settings.data):
        _refuse_others_training(opened, like, split or settings.measured_split)
        data_set = load(
            name,
            split or settings.measured_split,
            root=root or settings.root,
            holdout=settings.holdout,
            seed=settings.seed,
        )
    else:
        split = split or ("test" if has_split(name, "test") else "train")
        data_set = load(name, split, root=root, holdout=0.1 if split == "val" else 0)
    return data_set.prepared_for(opened.model.preprocessing)


def _refuse_others_training(opened: Opened, like: Opened | None, split: str) -> None:
    """What one run kept aside, another run with another seed was trained on."""
    if split != "val" or like is None or opened.settings is None or like.settings is None:
        return
    mine, theirs = opened.settings, like.settings
    if (mine.seed, mine.holdout) != (theirs.seed, theirs.holdout):
        raise AibError(
            f"{opened.label} and {like.label} kept different images aside (seed or holdout "
            "differ): compare them on test images"
        )


def labelled_images(
    opened: Opened,
    data: str | None = None,
    split: str | None = None,
    root: str | None = None,
    like: Opened | None = None,
) -> ImageSet:
    """The same with labels that the model understands: its own, or else matched by name."""
    ways = dict(fit_classes(opened.model, images_for(opened, data, split, root, like)))
    return ways.get("own") or ways.get("matched") or ways["raw"]


def sha256(path: Path) -> str:
    """Of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
