"""Train from settings: data, model, loop and the final evaluation."""

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from lightning.fabric import Fabric

from aib.classifier import Classifier
from aib.data import ImageSet, has_split, load, require_trainable
from aib.errors import AibError
from aib.evaluation import Evaluation, evaluate
from aib.options import OPTION_NEEDS, ModelOptions
from aib.registry import create_model, evaluator_name, family
from aib.settings import Settings
from aib.training.checkpoint import require_checkpoint
from aib.training.fabric import launch_processes, make_fabric, run_on_rank_zero
from aib.training.folder import RunFolder, check_unused
from aib.training.interrupt import Interrupted
from aib.training.loop import fit
from aib.training.progress import Reporter
from aib.weights import WEIGHTS, load_weights


@dataclass(frozen=True)
class Trained:
    """The result of `train`."""

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
    """Train by these settings into `folder`. Processes other than the first return None."""
    # Fail before any work is done.
    if resume:
        require_checkpoint(RunFolder(folder).checkpoint)
    else:
        check_unused(folder)
    settings = with_test_images(settings)
    fabric = make_fabric(settings, folder)
    launch_processes(fabric)
    folder = fabric.broadcast(folder)  # each process made its own name, with the time
    report = report if report and fabric.is_global_zero else Reporter()
    with ExitStack() as lock:
        return _train(settings, RunFolder(folder), fabric, resume, report, lock)


def _train(
    settings: Settings,
    run: RunFolder,
    fabric: Fabric,
    resume: bool,
    report: Reporter,
    lock: ExitStack,
) -> Trained | None:
    """`train` in each of the processes. `lock` holds the lock of the folder until the end."""
    if resume:
        run_on_rank_zero(fabric, lambda: lock.enter_context(run.locked()))
        run.check_settings(settings)

    data = load_data(settings, "train")
    has_validation = settings.holdout or has_split(settings.data, "val")
    validation = load_data(settings, "val") if has_validation else None
    model = build_model(settings, data)
    if not resume:

        def begin() -> None:
            run.make()
            lock.enter_context(run.locked())
            run.write_config(model, settings)

        run_on_rank_zero(fabric, begin)
    for message in data.skipped:
        report.message(f"skipped: {message}")
    if data.skipped:
        report.message(f"{len(data.skipped)} damaged files were skipped; --strict stops at one")
    report.message(
        f"{settings.model} on {settings.data}: {len(data):,} images, {settings.epochs} epochs, "
        f"{fabric.device}; writing to {run.folder}"
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
            return None  # the first process reports it; if this one failed, it would be killed
        raise
    if not fabric.is_global_zero:
        return None
    images = load_data(settings, settings.measured_split)
    test = save_and_evaluate(run, fitted.model, images, settings)
    return Trained(run.folder, fitted.model, test, fitted.seconds)


def save_and_evaluate(run: RunFolder, model: Classifier, test: ImageSet, s: Settings) -> Evaluation:
    """Write the weights of a trained model and its evaluation on the test images to the run."""
    run.write_weights(model)
    evaluation = evaluate(
        model, test, precision=s.precision, channels_last=s.channels_last, workers=s.workers
    )
    run.write_evaluation(s.reported, evaluation.to_dict())
    return evaluation


def evaluator_settings(s: Settings) -> Settings:
    """Settings that train the evaluator of a model: the same but for the map and its options."""
    default = asdict(ModelOptions())
    kept = ("latent_dim", "noise_std")
    options = {n: default[n] for n in OPTION_NEEDS if n not in kept}
    return s.updated(model=evaluator_name(s.model), **options)


def with_test_images(s: Settings) -> Settings:
    """Hold out a fifth of a folder that has no test images; it is evaluated in their place."""
    return s if s.measured_split == "test" or s.holdout else replace(s, holdout=0.2)


def load_data(s: Settings, split: str) -> ImageSet:
    """Load one split of the settings' data set."""
    return load(s.data, split, root=s.root, seed=s.seed, holdout=s.holdout, strict=s.strict)


def build_model(s: Settings, data: ImageSet) -> Classifier:
    """Make a model for these images, with random weights or those of `init`."""
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
