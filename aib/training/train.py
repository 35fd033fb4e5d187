"""Train from settings: data, model, loop and the final evaluation."""

import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric

from aib.config.options import OPTION_NEEDS, ModelOptions, is_library_name
from aib.config.settings import Settings
from aib.data import ImageSet, has_split, load
from aib.data.load import parse_name, with_distill
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, AibWarning, counted
from aib.evaluation.error import Evaluation
from aib.models.classifier import Classifier, model_name
from aib.models.networks.attachment import attach, attach_options
from aib.models.networks.by_name import build_network, call_builder, preprocessing_of
from aib.models.registry import create_model, evaluator_name, family, find_entry
from aib.models.weights import CHECKPOINT, CONFIG, READERS, WEIGHTS, read_config, read_preprocessing
from aib.runs.download import is_address
from aib.runs.files import final_split, measured_split, read_held_out, write_evaluation
from aib.runs.pretrained import find_model, from_pretrained, packaged_models
from aib.system.files import sha256
from aib.training.fabric import run_on_rank_zero, start_fabric
from aib.training.fit import run_training
from aib.training.folder import RunFolder, check_unused, require_checkpoint
from aib.training.interrupt import Interrupted
from aib.training.loop import Fitted
from aib.training.progress import Reporter
from aib.training.teacher import Teacher
from aib.training.warm_start import FAMILIES, is_backbone, load_backbone, load_trained


@dataclass(frozen=True)
class Trained:
    """The result of `train`."""

    folder: Path
    model: Classifier
    evaluation: Evaluation  # of the held-out images if there are any, else of the test images
    seconds: float


def train(
    settings: Settings, folder: Path, *, resume: bool = False, report: Reporter | None = None
) -> Trained | None:
    """Train by these settings into `folder`. Processes other than the first return None."""
    if not settings.trains_network:  # fail before any work is done
        find_entry(settings.model)
    if settings.evaluator:
        settings = evaluator_settings(settings)
    if settings.teacher is not None:
        data, distill = with_distill(settings.data, settings.distill)
        settings = replace(settings, data=data, distill=distill)
    elif settings.distill is not None:
        raise AibError("distill is the weight of a teacher: add --teacher")
    settings = with_test_images(settings)
    if resume:
        require_checkpoint(folder / CHECKPOINT)
        RunFolder(folder).check_settings(settings)
    else:
        check_unused(folder)
    fabric = start_fabric(settings, folder)
    folder = fabric.broadcast(folder)  # each process made its own name, with the time
    report = report if report and fabric.is_global_zero else Reporter()
    try:
        fitted = _train(settings, folder, fabric, resume, report)
    except Interrupted:
        if not fabric.is_global_zero:
            return None  # the first process reports it; if this one failed, it would be killed
        raise
    if not fabric.is_global_zero:
        return None
    evaluation = fitted.test or fitted.validation
    assert evaluation is not None
    evaluation = replace(evaluation, weights_sha256=sha256(folder / WEIGHTS))
    name = f"{settings.data} {final_split(settings)}"
    write_evaluation(folder, name, evaluation.to_dict())
    return Trained(folder, fitted.model, evaluation, fitted.seconds)


def _train(s: Settings, folder: Path, fabric: Fabric, resume: bool, report: Reporter) -> Fitted:
    """`train` in each of the processes."""
    recorded = read_held_out(folder) if resume else None
    teacher = None if s.teacher is None else load_teacher(s.teacher, s.distill or 1.0)
    sets = {"train": load_data(s, "train", recorded)}
    own_validation = has_split(s.data, "val")
    if s.holdout or own_validation:
        sets["val"] = load_data(s, "val", recorded)
    if final_split(s) == "test":  # loaded now: an error in them is one before the training
        run_on_rank_zero(fabric, lambda: sets.update(test=load_data(s, "test")))
    if teacher is not None:
        sets = {split: teacher.relabel(images) for split, images in sets.items()}
    model = build_model(s, sets["train"], resume=resume, report=report, teacher=teacher)
    if resume:  # normalised as the weights expect, which need not be the data's own way
        model.preprocessing = read_preprocessing(folder / CONFIG)
    model.preprocessing = sets["train"].prepared_for(model.preprocessing).preprocessing
    sets = {split: images.prepared_for(model.preprocessing) for split, images in sets.items()}
    skipped = (images.describe_skipped() for images in sets.values() if images.skipped)
    for left_out in dict.fromkeys(skipped):
        report.message(f"warning: {left_out}")
    report.message(
        f"{s.model} on {s.data}: {len(sets['train']):,} images, {counted(s.epochs, 'epoch')}, "
        f"{fabric.device}; writing to {folder}"
    )
    about = {"settings": s.to_dict()}
    keys = sets["val"].keys if "val" in sets and not own_validation else None
    how: dict[str, Any] = {"recorded": keys, "resume": resume, "teacher": teacher}
    return run_training(model, s, sets, fabric, report, folder, about, **how)


def evaluator_settings(s: Settings) -> Settings:
    """Settings that train the evaluator of a model: the same but for the map and its options."""
    if s.init is not None and not is_backbone(s.init) and not own_weights(s):
        raise AibError(
            "an evaluator must not know the map that it judges: start it from ImageNet's weights "
            f"({', '.join(FAMILIES)}:PATH) or from random ones, not from {s.init}"
        )
    default = asdict(ModelOptions())
    # `tiny` has another stem with propose="twice".
    kept = ("dropout", "latent_dim", "noise_std", "propose")
    changes = {n: default[n] for n in OPTION_NEEDS if n not in kept}
    changes |= {"budget": None, "lambda_area": Settings.lambda_area}
    if s.trains_network:
        return s.updated(evaluator=True, masked=True, propose=None, **changes)
    return s.updated(evaluator=False, model=evaluator_name(s.model), **changes)


def _attach(s: Settings, data: ImageSet, download: bool) -> Classifier:
    """Attach to the network that the settings name."""
    own = data.preprocessing
    is_library = is_library_name(s.model)
    # The data's image size counts where it was given, as in folder:photos:image_size=160.
    given = not is_library or "image_size" in parse_name(s.data)[2]
    model = attach(
        s.model,
        at=s.at,
        num_classes=data.num_classes,
        masked=s.masked,
        evaluator=s.evaluator,
        pretrained=own_weights(s) or s.pretrained,
        download=download,
        image_size=own.image_size if given else None,
        **attach_options(s.options),
    )
    policy = model.preprocessing if is_library else own
    model.preprocessing = replace(policy, resize=own.resize, class_names=own.class_names)
    return model


def own_weights(s: Settings) -> Path | None:
    """The file that --init names if it holds weights by a network's own names, not aib's."""
    if s.init is None or not s.trains_network or is_backbone(s.init):
        return None
    path = Path(s.init).expanduser()
    if path.suffix not in READERS:
        return None
    with suppress(AibError):  # beside the weights of a model of aib lies its config
        read_config(path.parent / CONFIG)
        return None
    return path


def with_test_images(s: Settings) -> Settings:
    """Hold out a fifth of a folder that has no test images; it is evaluated in their place."""
    return s if measured_split(s.data) == "test" or s.holdout else replace(s, holdout=0.2)


def load_data(s: Settings, split: str, held_out: list[str | int] | None = None) -> ImageSet:
    """Load one split of the settings' data set, with the images held out that a run recorded."""
    return load(s.data, split, root=s.root, seed=s.seed, holdout=s.holdout, held_out=held_out)


def build_model(
    s: Settings,
    data: ImageSet,
    *,
    resume: bool = False,
    report: Reporter | None = None,
    teacher: Teacher | None = None,
) -> Classifier:
    """Make a model for these images, with random or pretrained weights, `init`'s or the teacher's.

    The model says how the images are prepared: a library's network has a size and normalisation of
    its own. To `resume`, nothing is loaded: the checkpoint holds all weights.
    """
    if not data.labelled and teacher is None:
        raise AibError(f"{s.data} has no labels: add --teacher")
    if data.num_classes < 2:
        raise AibError(
            f"{s.data} has one class, {data.class_names[0]!r}: training needs two or more"
        )
    torch.manual_seed(s.seed)
    if s.trains_network:
        model = _attach(s, data, download=not resume)
    else:
        size = family(s.model, data.preprocessing.image_size)
        model = create_model(s.model, data.num_classes, size, options=s.options)
        own, model.preprocessing = model.preprocessing, data.preprocessing
        if own.mean != Preprocessing.mean:  # a family's own statistics come before the data's
            model.preprocessing = replace(data.preprocessing, mean=own.mean, std=own.std)
    if resume or own_weights(s):
        return model
    report = report or Reporter()
    if s.init is not None:
        load_init(model, s.init, report)
    elif teacher is not None:
        report.message(f"{s.teacher}: {teacher.start(model)}")
    return model


def load_init(model: Classifier, init: str, report: Reporter) -> None:
    """Load weights of ImageNet from a file, or those of a run, a file or a packaged model."""
    if is_backbone(init):
        family, _, file = init.partition(":")
        if not str(model.recipe.get("name")).startswith(FAMILIES[family]):
            raise AibError(f"weights of {family} do not fit {model_name(model)}")
        loaded = load_backbone(model, Path(file).expanduser())
    else:
        path = find_model(Path(init))
        path = path / WEIGHTS if path.is_dir() else path
        if not path.is_file():
            raise AibError(
                f"no weights at {path}: --init takes a run, a packaged model "
                f"({', '.join(packaged_models())}) or FAMILY:PATH ({', '.join(FAMILIES)})"
            )
        if path.suffix != ".safetensors":
            raise AibError(f"{path} is no model of aib: write FAMILY:PATH for ImageNet's weights")
        loaded = load_trained(model, path)
    report.message(f"{init}: {loaded}")


def load_teacher(spec: str, distill: float = 1.0) -> Teacher:
    """The teacher of this name: see `Settings.teacher`."""
    family, _, path = spec.partition(":")
    if family == "vgg16":
        raise AibError("vgg16:PATH has no classes to teach: name lite0:PATH, lite2:PATH or a run")
    if family in FAMILIES:
        model = create_model(family, 1000, 224)
        load_backbone(model, Path(path).expanduser())
        return Teacher(model, distill)
    if is_library_name(spec):
        network = build_network(spec, pretrained=True)
        return Teacher(network, distill, preprocessing_of(spec, network))
    if names_function(spec):
        return Teacher(call_builder(spec), distill)
    return Teacher(from_pretrained(spec), distill)


def names_function(spec: str) -> bool:
    """Whether this teacher is a function of the user's, which only the user may name."""
    known = is_library_name(spec) or is_backbone(spec) or is_address(spec)
    return ":" in spec and not known and not Path(spec).exists()


def open_teacher(s: Settings | None, images: ImageSet, spec: str | None = None) -> Teacher | None:
    """The teacher of a run that is evaluated on these images, or the one of `spec`; None without.

    A run's own teacher is only needed for images without labels.
    """
    found = spec or (s.teacher if s is not None else None)
    try:
        if found is None or (spec is None and names_function(found)):
            raise AibError(f"{images.name} needs labels or a --teacher that gives them")
        return load_teacher(found)
    except AibError as error:
        if spec is not None or not images.labelled:
            raise
        if found is not None:
            warnings.warn(f"no agreement with the teacher: {error}", AibWarning, stacklevel=2)
        return None
