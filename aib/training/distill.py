"""`distill`: turn an existing classifier into one that sees only what its map shows."""

from dataclasses import replace
from typing import Any

from torch import nn

from aib.config.presets import DISTILLED
from aib.config.settings import Settings
from aib.data import ImageSet, as_images
from aib.data.load import with_distill
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.models.classifier import Classifier
from aib.models.networks.attachment import attach
from aib.models.registry import create_model, masked_name
from aib.training.fit import Data, fit
from aib.training.loop import Fitted
from aib.training.teacher import Teacher
from aib.training.train import load_teacher


def distill(
    teacher: nn.Module | str,
    data: Data,
    student: Classifier | None = None,
    settings: Settings | None = None,
    *,
    at: str | None = None,
    area: float = 0.25,
    preprocessing: Preprocessing | None = None,
    **options: Any,
) -> Fitted:
    """Train a masked model to predict what a classifier predicts for whole images.

    teacher: a network that returns logits, a model of aib, or a name as in `Settings.teacher`.
    data: as for `fit`. Labels count with the weight 1 - `settings.distill`, by default 0.5; 1
        ignores them. A folder without class folders has none.
    student: the model to train; by default the teacher itself, masked, which starts from its
        weights. `at` and `area` are those of `attach`.
    preprocessing: image size, mean, std and class names of a network of your own.
    options: those of `fit`, such as `validation` and `run`.
    """
    s = settings or DISTILLED
    data, weight = with_distill(data, s.distill) if isinstance(data, str) else (data, s.distill)
    weight = 0.5 if weight is None else weight
    if isinstance(teacher, str):
        guide = load_teacher(teacher, weight)
    else:
        guide = Teacher(teacher, weight, preprocessing)
    model = student or masked_form(teacher, guide, at, area)
    if settings is None and not model.pretrained_names:
        s = replace(s, lr_backbone=None)
    policy = replace(model.preprocessing, class_names=guide.preprocessing.class_names)

    def prepared(part: Data, split: str) -> ImageSet:
        found = as_images(part, policy, model.num_classes, split=split)
        return guide.relabel(found).prepared_for(policy)

    for name, split in (("validation", "val"), ("test", "test")):
        if options.get(name) is not None:
            options[name] = prepared(options[name], split)
    return fit(model, prepared(data, "train"), s, teacher=guide, **options)


def masked_form(
    teacher: nn.Module | str, guide: Teacher, at: str | None, area: float
) -> Classifier:
    """The teacher's network with a mask before it, and its weights."""
    network, policy = guide.network, guide.preprocessing
    classes = len(policy.class_names)
    if not isinstance(network, Classifier):
        named = teacher if isinstance(teacher, str) else network
        options: dict[str, Any] = {"masked": True, "area": area, "preprocessing": policy}
        model = attach(named, at, num_classes=classes, **options)
    elif network.recipe["kind"] == "named":
        form = {name: network.recipe[name] for name in ("image_size", "width", "profile")}
        name = masked_name(network.recipe["name"])
        model = create_model(name, classes, area=area, preprocessing=policy, **form)
    else:
        raise AibError("this teacher has no masked form of its own: give a student")
    guide.start(model)
    return model.requires_grad_(True)
