"""From settings to a finished run: data, model, loop, and the evaluation that is reported."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from lightning.fabric import Fabric

from aib.classifier import Classifier
from aib.data import ImageSet, has_split, load, require_trainable
from aib.errors import AibError
from aib.evaluate import Evaluation, evaluate
from aib.registry import create_model, family
from aib.runs import Run, refuse_used
from aib.settings import Settings
from aib.training.checkpoint import require_checkpoint
from aib.training.fabric import in_first, launch, make_fabric
from aib.training.interrupt import Interrupted
from aib.training.loop import fit
from aib.training.progress import Reporter, Silent
from aib.weights import WEIGHTS, load_weights


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    folder: Path
    model: Classifier
    test: Evaluation
    seconds: float


def train(
    settings: Settings,
    folder: Path,
    *,
    resume: bool = False,
    report: Reporter | None = None,
) -> Trained | None:
    """Train as the settings say, into `folder`. Processes other than the first return None."""
    # Before any work.
    if resume:
        require_checkpoint(Run(folder).checkpoint)
    else:
        refuse_used(folder)
    settings = keep_some_aside(settings)
    fabric = make_fabric(settings, folder)
    launch(fabric)
    folder = fabric.broadcast(folder)  # each process made up its own name
    report = (report or Silent()) if fabric.is_global_zero else Silent()
    with ExitStack() as lock:
        return _train(settings, Run(folder), fabric, resume, report, lock)


def _train(
    settings: Settings, run: Run, fabric: Fabric, resume: bool, report: Reporter, lock: ExitStack
) -> Trained | None:
    """The same in each process, once there are all. `lock` holds the folder's until the end."""
    folder = run.folder
    if resume:
        in_first(fabric, lambda: lock.enter_context(run.locked()))
        Run.reopen(folder, settings)

    data = load_data(settings, "train")
    own_val = settings.holdout or has_split(settings.data, "val")
    validation = load_data(settings, "val") if own_val else None
    model = build_model(settings, data)
    if not resume:

        def begin() -> None:
            run.make_folder()
            lock.enter_context(run.locked())
            run.write_config(model, settings)

        in_first(fabric, begin)
    for sentence in data.skipped:
        report.note(f"skipped: {sentence}")
    if data.skipped:
        report.note(f"{len(data.skipped)} damaged files were left out; --strict stops at one")
    report.note(
        f"{settings.model} on {settings.data}: {len(data):,} images, {settings.epochs} epochs, "
        f"{fabric.device}; writing to {folder}"
    )
    try:
        fitted = fit(
            model,
            data,
            settings,
            validation=validation,
            run=run,
            resume=resume,
            report=report,
            fabric=fabric,
        )
    except Interrupted:
        if not fabric.is_global_zero:
            return None  # the first one reports it; a failed worker would get it killed
        raise
    if not fabric.is_global_zero:
        return None
    test = finish(run, fitted.model, load_data(settings, settings.measured_split), settings)
    return Trained(folder, fitted.model, test, fitted.seconds)


def finish(run: Run, model: Classifier, test: ImageSet, s: Settings) -> Evaluation:
    """Leave the weights of a trained model, and its figures on the test images, in the run."""
    run.write_weights(model)
    figures = evaluate(
        model, test, precision=s.precision, channels_last=s.channels_last, workers=s.workers
    )
    run.write_evaluation(s.reported, figures.to_dict())
    return figures


def keep_some_aside(s: Settings) -> Settings:
    """A folder without test images: a fifth of it is not trained on, and is what is reported."""
    return s if s.measured_split == "test" or s.holdout else replace(s, holdout=0.2)


def load_data(s: Settings, split: str) -> ImageSet:
    """One split of the settings' data set."""
    return load(s.data, split, root=s.root, seed=s.seed, holdout=s.holdout, strict=s.strict)


def build_model(s: Settings, data: ImageSet) -> Classifier:
    """A model for these images, with fresh weights or those of `init`."""
    size = family(s.model, data.preprocessing.image_size)
    require_trainable(s.data, data)
    torch.manual_seed(s.seed)
    model = create_model(s.model, data.num_classes, size, options=s.options)
    model.preprocessing = data.preprocessing
    if s.init is not None:
        path = Path(s.init)
        path = path / WEIGHTS if path.is_dir() else path
        if not path.is_file():
            raise AibError(
                f"no weights at {path}; --init takes a run's folder or a safetensors file"
            )
        load_weights(model, path, other_classes=True)
    return model
