"""From a saved config to the model it describes, with its weights."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from torch import nn

from aib.attach import attach
from aib.bottleneck import AIB
from aib.classifier import Classifier
from aib.errors import AibError
from aib.memory import check_pass
from aib.preprocessing import Preprocessing, check_image_size
from aib.registry import create_model
from aib.weights import CONFIG, WEIGHTS, load_weights, read_config

# Options of `attach` that older files do not name, and what they were then.
NEWER = {"attention_noise": 0.0, "attention_guide": False}


def from_pretrained(
    source: str | Path,
    *,
    backbone: nn.Module | tuple[nn.Module, nn.Module] | None = None,
    revision: str | None = None,
    local_files_only: bool = False,
) -> Classifier:
    """Load a model from a folder, or from the Hugging Face Hub by `owner/name`, ready to evaluate.

    A model made with `attach` needs the same kind of `backbone` again, one made with
    `AIB(stem, tail)` needs `backbone=(stem, tail)`; a ready-made aib model of the same form will
    do for either. What is passed is copied, not changed.
    """
    files = {name: _locate(source, name, revision, local_files_only) for name in (CONFIG, WEIGHTS)}
    config = read_config(files[CONFIG])
    model = _rebuild(config["model"], backbone, files[CONFIG])
    model.preprocessing = Preprocessing.from_dict(config["preprocessing"])
    check_pass(model, model.preprocessing.image_size, files[CONFIG])
    load_weights(model, files[WEIGHTS])
    return model.eval()


def _locate(source: str | Path, name: str, revision: str | None, offline: bool) -> Path:
    folder = Path(source)
    if folder.is_dir():
        if not (folder / name).is_file():
            raise AibError(f"{folder} has no {name}; it is not a saved aib model")
        return folder / name
    try:
        return Path(hf_hub_download(str(source), name, revision=revision, local_files_only=offline))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise AibError(
            f"no folder {str(source)!r} here, and {name} could not be had from the Hub under "
            f"that name ({type(error).__name__})"
        ) from error


def _rebuild(
    recipe: dict[str, Any], backbone: nn.Module | tuple[nn.Module, nn.Module] | None, path: Path
) -> Classifier:
    arguments = dict(recipe)
    kind = arguments.pop("kind", None)
    if "preprocessing" in arguments:
        raise AibError(f"{path} has preprocessing inside its model; it belongs beside it")
    try:
        if kind == "named" and (backbone is None or isinstance(backbone, Classifier)):
            # Shapes only: what the config promises takes no memory before the weights confirm it.
            with torch.device("meta"):
                named = create_model(**arguments)
            if backbone is None:
                return named
            recipe = named.recipe  # with defaults for options that are newer than the file
        if kind == "attached":
            recipe = NEWER | recipe
        if isinstance(backbone, Classifier):
            _check_same_form(recipe, backbone.recipe, path)
            return deepcopy(backbone)
        if kind in ("attached", "composed", "custom") and backbone is None:
            raise AibError(
                f"{path.parent} was made from a network that is not part of aib; pass it as "
                "from_pretrained(folder, backbone=...)"
            )
        if kind == "attached" and isinstance(backbone, nn.Module):
            if "image_size" in arguments:  # `attach` will pass two images of it
                check_pass(backbone, check_image_size(arguments["image_size"]), path, images=2)
            return attach(backbone, **arguments)
        if kind == "composed" and isinstance(backbone, tuple):
            return AIB(*deepcopy(backbone), **arguments)
    except (TypeError, ValueError, RuntimeError, ArithmeticError) as error:  # unknown, out of range
        reason = str(error).partition("\n")[0]  # torch appends a C++ stack to some
        raise AibError(f"{path} describes a model this version cannot build: {reason}") from error
    if kind == "named":
        raise AibError(f"{path.parent} is a {recipe.get('name')}, which needs no backbone=")
    if kind == "custom":
        raise AibError(f"{path.parent} has parts of its own; pass backbone=, the whole model")
    raise AibError(
        f"{path}: a model of kind {kind!r} cannot be built from a {type(backbone).__name__}"
    )


def _check_same_form(saved: dict[str, Any], given: dict[str, Any], path: Path) -> None:
    """A ready-made model has to agree with the file also where the weights cannot tell."""
    different = sorted(key for key in {*saved, *given} if saved.get(key) != given.get(key))
    if different:
        key = different[0]
        raise AibError(
            f"{path} describes another model than the one passed: {key} is {saved.get(key)!r} in "
            f"the file and {given.get(key)!r} in the model"
        )


Classifier.loader = from_pretrained  # here, because this module knows every kind of model
