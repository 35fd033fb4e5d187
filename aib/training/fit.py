"""`fit`: train a model on data from Python, also into a folder, from which it can be resumed."""

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightning.fabric import Fabric
from torch.utils.data import Dataset

from aib.config.settings import CHOICES, Settings
from aib.data import ImageSet, as_images
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.evaluation.error import describe_split
from aib.models.classifier import Classifier
from aib.models.weights import weights_sha256
from aib.training.fabric import run_on_rank_zero, start_fabric
from aib.training.folder import RunFolder, load_checkpoint
from aib.training.head import train_head
from aib.training.interrupt import SignalCatcher
from aib.training.loop import Fitted, Loop
from aib.training.progress import Reporter, make_reporter
from aib.training.step import budget_of, check_budget
from aib.training.teacher import Teacher

AREA_MARGIN = 0.05  # between the masks' mean area at the end and its budget
Data = ImageSet | Dataset | tuple[Any, Any] | str


def fit(
    model: Classifier,
    data: Data,
    settings: Settings | None = None,
    *,
    validation: Data | None = None,
    test: Data | None = None,
    preprocessing: Preprocessing | None = None,
    run: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    report: Reporter | None = None,
    teacher: Teacher | None = None,
) -> Fitted:
    """Train `model` on `data` and return it with its last metrics.

    The data is an ImageSet, a name such as `folder:photos`, (images, labels), or a map-style
    Dataset of (image, label), which is read once into memory. Its PIL images, paths or uint8 pixels
    are resized and normalised as `preprocessing` or the model says, and augmented.

    The model takes over the preprocessing and class names of the data. Settings of the data and of
    the model are for `aib train` and change nothing here. `validation` is evaluated every
    `evaluate_every` epochs and at the end, when the temperature of the probabilities is fitted on
    it; `test` once, with the final weights.

    `run` names a new folder for checkpoints, metrics and, at the end, the weights, which
    `aib.from_pretrained` and the commands load. After an interruption the same call with
    `resume=True` continues. Without `run` nothing is written.

    `progress` shows a bar on a terminal and prints lines elsewhere; a `report` of your own receives
    the metrics and messages instead. For a `teacher` see `aib.distill`.
    """
    if resume and run is None:
        raise AibError("name the folder of the run to resume: fit(..., run=FOLDER, resume=True)")
    if not isinstance(model, Classifier):
        raise AibError(f"fit trains a model of aib, not a {type(model).__name__}: use aib.attach")
    s = settings or Settings()
    images = images_of(data, model, preprocessing, "train")
    policy = model.preprocessing = images.preprocessing
    sets = {"train": images}
    for split, one in (("val", validation), ("test", test)):
        if one is not None:
            sets[split] = images_of(one, model, None, split).prepared_for(policy)
    training = {k: v for k, v in s.to_dict().items() if k not in CHOICES}
    # The steps of an epoch depend on the number of images.
    training["images"] = len(images)
    folder = None if run is None else Path(run)
    fabric = start_fabric(s, folder)
    if report is None:
        report = make_reporter() if progress and fabric.is_global_zero else Reporter()
    about = {"training": training}
    how: dict[str, Any] = {"resume": resume, "teacher": teacher}
    return run_training(model, s, sets, fabric, report, folder, about, **how)


def run_training(
    model: Classifier,
    s: Settings,
    sets: dict[str, ImageSet],
    fabric: Fabric,
    report: Reporter,
    folder: Path | None,
    about: dict[str, dict[str, Any]],
    *,
    recorded: Collection[str | int] | None = None,
    resume: bool = False,
    teacher: Teacher | None = None,
) -> Fitted:
    """Train in each of the processes, with everything prepared.

    sets: images of "train", and of "val" and "test" if there are such. about: see
    `RunFolder.opened`; `recorded` are the keys of the held-out images.
    """
    check_budget(model, s)
    images, test = sets["train"], sets.get("test")
    if teacher is not None:  # a resumed run needs the same one
        about = about | {"teacher": {"weights_sha256": weights_sha256(teacher.network)}}
    run = None if folder is None else RunFolder(folder)
    with ExitStack() as lock:
        if run is not None:
            opened = run.opened(model, about, held_out=recorded, resume=resume)
            run_on_rank_zero(fabric, lambda: lock.enter_context(opened))
        seconds, state = 0.0, None
        if run is not None and resume:
            state = load_checkpoint(run.checkpoint)
            model.pretrained_names = frozenset(state["pretrained_names"])
        elif s.head_epochs:
            row = train_head(model, images, s, fabric, report)
            seconds = row["seconds"]
            if run is not None and fabric.is_global_zero:
                run.log(row)
        loop = Loop(model, images, s, sets.get("val"), run, report, fabric, teacher, seconds)
        loop.test_images = 0 if test is None else len(test)
        if state is not None:
            loop.restore(state)
        with SignalCatcher() as stop:
            fitted = loop.train(stop)
        if missed := missed_area(model, s, fitted.last.get("area")):
            report.message(f"warning: {missed}")
        if run is not None:  # all wait: a process that returned earlier might read the weights
            run_on_rank_zero(fabric, lambda: run.write_weights(fitted.model))
        if test is not None and fabric.is_global_zero:
            report.message(f"evaluating {len(test):,} {describe_split(test.split)} images")
            reference = None
            if teacher is not None:
                test, reference = teacher.label(test, s.workers)
            fitted = replace(fitted, test=loop.evaluate(fitted.model, test, reference=reference))
    return fitted


def missed_area(model: Classifier, s: Settings, area: float | None) -> str | None:
    """A warning if the masks of the last steps miss the budget for their mean."""
    if not model.takes_map or area is None or budget_of(model, s) != "mean":
        return None
    budget = float(model.recipe.get("area", 1.0))
    if budget == 1 or abs(area - budget) <= AREA_MARGIN:
        return None
    way = "train longer, or raise" if area > budget else "if the error is too high, lower"
    found = f"the masks keep {area:.0%} of the pixels and their budget is {budget:.0%}"
    return f"{found}: {way} lambda_area"


def images_of(
    data: Data, model: Classifier, preprocessing: Preprocessing | None, split: str
) -> ImageSet:
    """The images of the data, which need as many classes as the model."""
    options: dict[str, Any] = {"preprocessing": preprocessing, "split": split}
    images = as_images(data, model.preprocessing, model.num_classes, **options)
    if images.num_classes != model.num_classes:
        raise AibError(
            f"the data has {images.num_classes} classes and the model {model.num_classes}"
        )
    return images
