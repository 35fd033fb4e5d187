"""Weights in the Hugging Face layout: model.safetensors + config.json, nothing executable."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from aib.attach import attach
from aib.bottleneck import AIB
from aib.checkpoint import write_whole
from aib.classifier import Classifier
from aib.errors import AibError
from aib.memory import check_pass
from aib.preprocessing import Preprocessing, check_image_size
from aib.registry import create_model

SCHEMA = 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"
# Options of `attach` that older files do not name, and what they were then.
NEWER = {"attention_noise": 0.0, "attention_guide": False}


def config_of(model: Classifier) -> dict[str, Any]:
    """What config.json says of a model."""
    return {
        "schema": SCHEMA,
        "library": "aib",
        "model": model.recipe,
        "preprocessing": model.preprocessing.to_dict(),
    }


def write_weights(model: nn.Module, path: Path) -> None:
    """The weights as safetensors, from whatever device."""
    weights = {name: value.detach().cpu().contiguous() for name, value in unshared(model).items()}
    try:
        save_file(weights, path, metadata={"format": "pt"})
    except SafetensorError as error:  # the disk's own error is only a number in its text
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), str(error), str(path)) from error


def save(model: Classifier, folder: Path) -> None:
    """Write both files; a reader never meets half a file."""
    text = json.dumps(config_of(model), indent=2) + "\n"
    write_whole(folder / WEIGHTS, lambda path: write_weights(model, path))
    write_whole(folder / CONFIG, lambda path: path.write_text(text))


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


def read_config(path: Path) -> dict[str, Any]:
    """A config.json of ours, checked."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise AibError(f"{path} cannot be read as JSON: {error}") from error
    keys = {"schema", "model", "preprocessing"}
    if not isinstance(config, dict) or not keys <= set(config):
        raise AibError(f"{path} is not an aib model's config: it needs {sorted(keys)}")
    if config["schema"] != SCHEMA:
        raise AibError(f"{path} has schema {config['schema']!r}; this version reads {SCHEMA}")
    if not all(isinstance(config[key], dict) for key in ("model", "preprocessing")):
        raise AibError(f"{path} is not an aib model's config: model and preprocessing are objects")
    return config


def load_weights(model: nn.Module, path: Path, *, other_classes: bool = False) -> list[str]:
    """Strictly: every key, every shape. Half-precision files are read into the model's type.

    With `other_classes` a tensor of another shape stays as it is, and its name is returned: a
    model of the same form that was trained for other classes.
    """
    try:
        weights = load_file(path)
    except (SafetensorError, OSError) as error:
        raise AibError(f"{path} is truncated or not a safetensors file: {error}") from error
    expected = unshared(model)
    missing, foreign = sorted(set(expected) - set(weights)), sorted(set(weights) - set(expected))
    if missing or foreign:
        raise AibError(
            f"{path} does not fit the model: {len(missing)} keys missing{_first(missing)}, "
            f"{len(foreign)} foreign{_first(foreign)}"
        )
    unlike = [name for name, value in weights.items() if value.shape != expected[name].shape]
    if unlike and not other_classes:
        name = unlike[0]
        raise AibError(
            f"{path} does not fit the model: {name} is {list(weights[name].shape)} in the file and "
            f"{list(expected[name].shape)} in the model"
        )
    for name in unlike:
        del weights[name]
    ready = {name: value.to(expected[name].dtype, copy=True) for name, value in weights.items()}
    broken = [name for name, value in ready.items() if not bool(value.isfinite().all())]
    if broken:
        raise AibError(f"{path} is of no use: {broken[0]} holds NaN or infinite values")
    shapes_only = any(value.is_meta for value in expected.values())
    # Not strict: of tied names only the first is in the file, and the others were checked above.
    model.load_state_dict(ready, strict=False, assign=shapes_only)
    return unlike


def unshared(model: nn.Module) -> dict[str, Tensor]:
    """The state by name, each tensor once: safetensors has no notion of tied weights."""
    seen: set[int] = set()
    state: dict[str, Tensor] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if id(value) not in seen:
            seen.add(id(value))
            state[name] = value
    return state


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


def _first(keys: list[str]) -> str:
    return f" ({keys[0]} first)" if keys else ""
