"""Load a saved model: from its config to the model, with its weights."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aib.config.options import is_library_name
from aib.config.validation import parse_json
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, first_line
from aib.models.classifier import Classifier
from aib.models.networks.attachment import attach
from aib.models.networks.by_name import build_network
from aib.models.registry import create_model
from aib.models.types import Calibration
from aib.models.weights import (
    CHECKPOINT,
    CONFIG,
    LOCK,
    WEIGHTS,
    how_to_resume,
    load_tensors,
    read_config,
    read_tensors,
    tensor_shapes,
)
from aib.runs.download import fetch_model, is_address
from aib.system.files import locked

PACKAGED = Path(__file__).parents[1] / "pretrained_models"


def from_pretrained(source: str | Path, *, backbone: nn.Module | str | None = None) -> Classifier:
    """Load a model from a folder, the package or the Hugging Face Hub, in evaluation mode.

    A packaged model has a name, such as "lite2_masked"; one of the Hub is named by `owner/name` or
    `owner/name@REVISION`, in commands with `hf:` before it.

    A model made with `attach` needs the same kind of `backbone` again, or the name of a function
    that makes it ("my_module:build"); a network of timm or torchvision is found by its name. A
    model of your own parts needs one of the same form. What is passed is copied, not changed.
    """
    folder = _locate(source)
    path, weights = folder / CONFIG, folder / WEIGHTS
    config = read_config(path)
    recipe = config["model"]
    preprocessing = Preprocessing.from_dict(config["preprocessing"], path)
    _check_sizes(recipe, tensor_shapes(weights), path)
    model = _rebuild(recipe, backbone, path)
    model.preprocessing = preprocessing
    if config.get("calibration") is not None:
        model.calibration = parse_json(Calibration, config["calibration"], path)
    load_tensors(model, read_tensors(weights), weights)
    return model.eval()


def packaged_models() -> dict[str, Path]:
    """Folders of the models that come with the package, by name."""
    return {path.parent.name: path.parent for path in sorted(PACKAGED.glob(f"*/{WEIGHTS}"))}


def find_model(run: Path | None) -> Path:
    """The folder of a run, of a saved model or of a packaged model; by default the first of these.

    A folder comes before a packaged model of that name; `hf:owner/name` stays as it is.
    """
    packaged = packaged_models()
    if run is not None:
        return run if (run / CONFIG).is_file() else packaged.get(str(run), run)
    if not packaged:
        raise AibError("no pretrained model is packaged with this version: name one with --run")
    return next(iter(packaged.values()))


def _check_sizes(recipe: dict[str, Any], shapes: dict[str, list[int]], path: Path) -> None:
    """Compare the sizes of an attached model with its weights, before memory is allocated for them.

    A named model needs no such check: it is built on the meta device.
    """

    def rows(name: str) -> int:
        return (shapes.get(name) or [0])[0]

    if recipe.get("kind") != "attached":
        return
    limits = {
        "num_classes": rows("head.decode.2.weight") or rows("head.weight"),
        "latent_dim": rows("head.encode.weight") // 2,
        "quantizer": rows("quantizer.anchors"),
    }
    for key, limit in limits.items():
        value = recipe.get(key)
        if isinstance(value, int) and value > limit:
            raise AibError(f"{path} does not fit its weights: {key} is {value}, above {limit}")


def _locate(source: str | Path) -> Path:
    """The folder with config and weights."""
    folder = find_model(Path(source))
    if folder.is_dir():
        if (folder / LOCK).is_file() and not (folder / WEIGHTS).is_file():
            with locked(folder / LOCK, f"{folder} is being trained: wait for its end"):
                how = how_to_resume(folder)
            if (folder / CHECKPOINT).is_file():
                raise AibError(f"{folder} is an interrupted run: resume it with {how}")
        for name in (CONFIG, WEIGHTS):
            if not (folder / name).is_file():
                raise AibError(f"{folder} has no {name}; it is not a saved aib model")
        return folder
    if len(folder.parts) == 1 and not is_address(source):
        raise AibError(
            f"no folder {str(source)!r} here, and no packaged model of that name "
            f"({', '.join(packaged_models())}); a model of the Hub is named owner/name"
        )
    try:
        return fetch_model(source)
    except AibError as error:
        if is_address(source):
            raise
        raise AibError(f"no folder {str(source)!r} here, and {error}") from error


def _rebuild(recipe: dict[str, Any], backbone: nn.Module | str | None, path: Path) -> Classifier:
    """The model that a config describes, before its weights are loaded."""
    kind, name = recipe.get("kind"), recipe.get("backbone")
    if kind not in ("named", "attached", "custom"):
        raise AibError(f"{path}: there is no kind of model {kind!r}")
    arguments = {key: value for key, value in recipe.items() if key not in ("kind", "backbone")}
    if kind == "named" and not isinstance(backbone, Classifier):
        if backbone is not None:
            raise AibError(f"{path.parent} is a {recipe.get('name')}, which needs no backbone=")
        with torch.device("meta"):  # no memory before the weights are loaded
            return _build(create_model, arguments, path)
    if isinstance(backbone, str):
        form = is_library_name(backbone) and recipe.get("pretrained") is True
        backbone = build_network(backbone, pretrained=form, download=False)
    if isinstance(backbone, Classifier):
        _check_same_form(recipe, backbone.recipe, path)
        return deepcopy(backbone)
    if kind == "attached" and isinstance(backbone, nn.Module):
        arguments.pop("pretrained", None)
        model = _build(partial(attach, backbone), arguments, path)
        model.recipe |= {key: recipe[key] for key in ("backbone", "pretrained") if key in recipe}
        return model
    if kind == "attached" and isinstance(name, str) and is_library_name(name):
        return _build(partial(attach, name, download=False), arguments, path)
    needed = name if isinstance(name, str) else "my_module:build"
    raise AibError(
        f"this model needs --backbone {needed} (in Python, backbone={needed!r}): {path.parent} was "
        "made from a network of its author's, and aib runs no code because a file names it"
    )


def _build(make: Callable[..., Classifier], arguments: dict[str, Any], path: Path) -> Classifier:
    """Call `make` with the arguments in a config; any error names the file."""
    try:
        return make(**arguments)
    except (AibError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        reason = first_line(error)  # torch appends a C++ stack to some
        raise AibError(f"{path} describes a model that cannot be built: {reason}") from error


def _check_same_form(saved: dict[str, Any], passed: dict[str, Any], path: Path) -> None:
    """Raise an error where a model differs from the config, also in what has no weights."""
    for key in sorted({*saved, *passed}):
        if saved.get(key) != passed.get(key):
            raise AibError(
                f"{path} describes another model than the one passed: {key} is {saved.get(key)!r} "
                f"in the file and {passed.get(key)!r} in the model"
            )
