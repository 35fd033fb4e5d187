"""From folders and names on a command line to models and images that can be compared."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from aib.classifier import Classifier
from aib.data import ImageSet, load
from aib.data.files import locate, root_folder
from aib.data.load import parse_name
from aib.data.specs import spec_of
from aib.errors import AibError
from aib.evaluate import fit_classes
from aib.interpret.pixels import Feed, sample
from aib.interpret.study import Plan, Study, study
from aib.interpret.survey import Tick, silent
from aib.pretrained import CONFIG, WEIGHTS, from_pretrained, read_config
from aib.run import environment, read_settings
from aib.settings import Settings

RESULT = "interpret.json"  # in a run's folder
MAX_FOREIGN = 2000  # images of a foreign set that has to be decoded from files


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
    if name == "cuda" and not torch.cuda.is_available():
        raise AibError("there is no CUDA device here; leave --device out or say --device cpu")
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def images_for(
    opened: Opened,
    data: str | None = None,
    split: str = "test",
    root: str | None = None,
    like: Opened | None = None,
) -> ImageSet:
    """A run's own data or the data named, as its model takes it, with labels it understands.

    `like` is the run whose seed and folders count: runs that are compared see the same images.
    """
    settings = (like or opened).settings
    name = data or (settings.data if settings else None)
    if name is None:
        raise AibError(f"{opened.folder} is a saved model, not a run: name its data with --data")
    own = settings is not None and name == settings.data
    dataset = load(
        name,
        split,
        root=root or (settings.root if own and settings else None),
        holdout=settings.holdout if own and settings else 0.1,
        seed=settings.seed if own and settings else 0,
    ).prepared_for(opened.model.preprocessing)
    ways = dict(fit_classes(opened.model, dataset))
    return ways.get("own") or ways.get("matched") or ways["raw"]


def feed_for(
    opened: Opened,
    data: ImageSet,
    *,
    images: int | None = None,
    batch_size: int = 256,
    workers: int = 0,
    seed: int = 0,
) -> Feed:
    """All images of the data, or a seeded sample of them, on the model's device."""
    if images is not None and images < 2:
        raise AibError(f"--images must be at least 2, not {images}")
    device = next(opened.model.parameters()).device
    return Feed(data, sample(len(data), images, seed), batch_size, device, workers)


def check_alike(feeds: list[Feed], opened: list[Opened]) -> None:
    """Several runs are compared on the same modified images or not at all."""
    for feed, run in zip(feeds[1:], opened[1:], strict=True):
        first = feeds[0].data
        if feed.data.preprocessing.image_size != first.preprocessing.image_size:
            raise AibError(
                f"{opened[0].label} takes images of {first.preprocessing.image_size} pixels and "
                f"{run.label} of {feed.data.preprocessing.image_size}: compare them separately"
            )
        if not torch.equal(feed.data.labels, first.labels):
            raise AibError(f"{opened[0].label} and {run.label} do not know the same classes")


def foreign_images(name: str, root: str | None, seed: int = 0) -> Tensor | str:
    """Images to occlude with, uint8 [M,3,h,w]; or the sentence that says that they are not here."""
    kind, _, _ = parse_name(name)
    if kind not in ("folder", "shapes") and locate(spec_of(kind), root) is None:
        return (
            f"no {name} images under {root_folder(root)}, so there is no occlusion by foreign "
            f"images: get them with `aib data fetch {kind}` or name another set with --foreign"
        )
    data = load(name, "train" if kind == "folder" else "test", root=root, holdout=0)
    if data.images is None:
        data = data.subset(sample(len(data), MAX_FOREIGN, seed)).in_memory()
    assert data.images is not None
    return data.images


def study_run(
    run: Opened,
    feed: Feed,
    plan: Plan,
    data: str,
    *,
    notes: Sequence[str] = (),
    expensive: bool = True,
    tick: Tick = silent,
) -> Study:
    """The study of one run on `data`, with what it takes to repeat it."""
    facts = {
        "run": str(run.folder),
        "profile": run.model.profile,
        "weights_sha256": run.checksum,
        "data": data,
        "split": feed.data.split,
        "of_images": len(feed.data),
        "seed": plan.seed,
        "class_names": feed.data.class_names,
        "environment": environment(),
    }
    done = study(run.model, feed, plan, name=run.name, facts=facts, expensive=expensive, tick=tick)
    return done.with_notes(notes)


def sha256(path: Path) -> str:
    """Of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
