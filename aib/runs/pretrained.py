"""Load a saved model: from its config to the model, with its weights."""

from collections.abc import Callable, Container
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aib.config.options import is_library_name
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, first_line
from aib.models.calibration import Calibration
from aib.models.classifier import Classifier
from aib.models.networks.attachment import attach
from aib.models.networks.by_name import build_network
from aib.models.registry import create_model
from aib.models.weights import (
    CHECKPOINT,
    CONFIG,
    WEIGHTS,
    how_to_resume,
    load_tensors,
    read_config,
    read_tensors,
    tensor_shapes,
)
from aib.runs.download import fetch_model, is_address
from aib.runs.files import is_training
from aib.system.memory import check_image_memory

PACKAGED = Path(__file__).parents[1] / "pretrained_models"


def from_pretrained(
    source: str | Path,
    *,
    backbone: nn.Module | str | None = None,
    revision: str | None = None,
    local_files_only: bool = False,
) -> Classifier:
    """Load a model from a folder, the package or the Hugging Face Hub, in evaluation mode.

    A packaged model has a name, such as "pets_masked". A model of the Hub is named by `owner/name`,
    or as in commands by `hf:owner/name@REVISION`.

    A model made with `attach` needs the same kind of `backbone` again, or the name of a function
    that makes it ("my_module:build"). One of your own parts needs a model of the same form as its
    `backbone`. What is passed is copied, not changed. A model of a timm or torchvision network by
    name needs that library only.
    """
    folder = _locate(source, revision, local_files_only)
    path, weights = folder / CONFIG, folder / WEIGHTS
    config = read_config(path)
    recipe = config["model"]
    preprocessing = Preprocessing.from_dict(config["preprocessing"], path)
    check_image_memory(preprocessing.image_size, path)
    _check_sizes(recipe, tensor_shapes(weights), path)
    model = _rebuild(recipe, backbone, path)
    model.preprocessing = preprocessing
    if config.get("calibration") is not None:
        model.calibration = Calibration.from_dict(config["calibration"], path)
    load_tensors(model, read_tensors(weights), weights)
    return model.eval()


def packaged_models() -> dict[str, Path]:
    """Folders of the models that come with the package, by name."""
    if not PACKAGED.is_dir():
        return {}
    found = sorted(path for path in PACKAGED.iterdir() if path.is_dir())
    return {p.name: p for p in found if (p / CONFIG).is_file() and (p / WEIGHTS).is_file()}


def saved_here(folder: Path) -> bool:
    """Whether a saved model, or part of one, lies there."""
    return (folder / CONFIG).is_file() or (folder / WEIGHTS).is_file()


def _check_sizes(recipe: dict[str, Any], shapes: dict[str, list[int]], path: Path) -> None:
    """Compare the sizes in a config with the weights, before any memory is allocated for them.

    A named model needs no such check: it is built on the meta device.
    """

    def rows(name: str) -> int:
        return (shapes.get(name) or [0])[0]

    limits = {}
    if recipe.get("kind") == "attached":
        limits = {
            "num_classes": rows("head.decode.2.weight") or rows("head.weight"),
            "latent_dim": rows("head.encode.weight") // 2,
            "quantizer": rows("quantizer.anchors"),
        }
    for key, limit in limits.items():
        value = recipe.get(key)
        if isinstance(value, int) and value > limit:
            raise AibError(f"{path} does not fit its weights: {key} is {value}, above {limit}")
    if isinstance(size := recipe.get("image_size"), int):
        check_image_memory(size, path)


def _locate(source: str | Path, revision: str | None, offline: bool) -> Path:
    """The folder with config and weights."""
    folder, packaged = Path(source), packaged_models()
    if str(source) in packaged and not saved_here(folder):
        return packaged[str(source)]
    if folder.is_dir():
        if not (folder / WEIGHTS).is_file() and is_training(folder):
            raise AibError(f"{folder} is being trained: wait until it has ended")
        if not (folder / WEIGHTS).is_file() and (folder / CHECKPOINT).is_file():
            raise AibError(
                f"{folder} is an interrupted run, without {WEIGHTS}: finish it with "
                f"{how_to_resume(folder)}"
            )
        for name in (CONFIG, WEIGHTS):
            if not (folder / name).is_file():
                raise AibError(f"{folder} has no {name}; it is not a saved aib model")
        return folder
    if len(folder.parts) == 1 and not is_address(source):
        raise AibError(
            f"no folder {str(source)!r} here, and no packaged model of that name "
            f"({', '.join(packaged)}); a model of the Hub is named owner/name"
        )
    try:
        return fetch_model(source, revision, local_files_only=offline)
    except AibError as error:
        if is_address(source):
            raise
        raise AibError(f"no folder {str(source)!r} here, and {error}") from error


def _rebuild(
    recipe: dict[str, Any],
    backbone: nn.Module | str | None,
    path: Path,
) -> Classifier:
    """The model that a config describes, before its weights are loaded."""
    kind, folder = recipe.get("kind"), path.parent
    if "preprocessing" in recipe:
        raise AibError(f"{path} has preprocessing inside its model; it belongs beside it")
    if kind not in ("named", "attached", "custom"):
        raise AibError(f"{path}: there is no kind of model {kind!r}")
    if isinstance(backbone, Classifier):
        _check_same_form(recipe, backbone.recipe, path)
        return deepcopy(backbone)
    if kind == "named":
        if backbone is not None:
            raise AibError(f"{folder} is a {recipe.get('name')}, which needs no backbone=")
        return _build(_create_on_meta, recipe, path)
    named: dict[str, Any] = {
        key: recipe[key] for key in ("backbone", "pretrained") if key in recipe
    }
    name = named.get("backbone")
    if backbone is None and kind == "attached" and isinstance(name, str):
        if is_library_name(name):
            return _build(partial(attach, name, download=False), recipe, path)
        raise AibError(
            f"this model needs --backbone {name} (in Python, backbone={name!r}): {folder} was made "
            "from a network of its author's, and aib runs no code because a file names it"
        )
    if isinstance(backbone, str):
        form = is_library_name(backbone) and named.get("pretrained") is True
        backbone = build_network(backbone, pretrained=form, download=False)
        if isinstance(backbone, Classifier):
            return _rebuild(recipe, backbone, path)
    if backbone is None:
        raise AibError(
            f"{folder} was made from a network that is not part of aib; give it again "
            "with --backbone my_module:build, in Python from_pretrained(folder, backbone=...)"
        )
    if kind == "attached" and isinstance(backbone, nn.Module):
        wrong = f"cannot be built from a {type(backbone).__name__}"
        model = _build(partial(attach, backbone), _without(recipe, named), path, wrong)
        model.recipe |= named
        return model
    if kind == "custom":
        raise AibError(f"{folder} has parts of its own; pass backbone=, the whole model")
    raise AibError(
        f"{path}: a model of kind {kind!r} cannot be built from a {type(backbone).__name__}"
    )


def _create_on_meta(**arguments: Any) -> Classifier:
    """`create_model` with shapes only: takes no memory before the weights are loaded."""
    with torch.device("meta"):
        return create_model(**arguments)


def _build(
    make: Callable[..., Classifier],
    recipe: dict[str, Any],
    path: Path,
    wrong: str = "this version cannot build",
) -> Classifier:
    """Call `make` with the arguments in a config; any error names the file, and what is `wrong`."""
    arguments = _without(recipe, ("kind", "backbone"))
    try:
        return make(**arguments)
    except (AibError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        reason = first_line(error)  # torch appends a C++ stack to some
        raise AibError(f"{path} describes a model that {wrong}: {reason}") from error


def _without(recipe: dict[str, Any], names: Container[str]) -> dict[str, Any]:
    return {key: value for key, value in recipe.items() if key not in names}


def _check_same_form(saved: dict[str, Any], given: dict[str, Any], path: Path) -> None:
    """Raise an error where a model differs from the config, also in what has no weights."""
    different = sorted(key for key in {*saved, *given} if saved.get(key) != given.get(key))
    if different:
        key = different[0]
        raise AibError(
            f"{path} describes another model than the one passed: {key} is {saved.get(key)!r} in "
            f"the file and {given.get(key)!r} in the model"
        )
