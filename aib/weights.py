"""The file format of saved models: model.safetensors + config.json, nothing executable."""

import json
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from aib.errors import AibError
from aib.files import write_whole

SCHEMA = 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"


def save(model: nn.Module, config: dict[str, Any], folder: Path) -> None:
    """Write both files, each atomically."""
    text = json.dumps(config, indent=2) + "\n"
    write_whole(folder / WEIGHTS, lambda path: write_weights(model, path))
    write_whole(folder / CONFIG, lambda path: path.write_text(text))


def write_weights(model: nn.Module, path: Path) -> None:
    """Write the weights as safetensors, from any device."""
    weights = {name: value.detach().cpu().contiguous() for name, value in unshared(model).items()}
    try:
        save_file(weights, path, metadata={"format": "pt"})
    except SafetensorError as error:  # the operating system's error is only a number in its text
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), str(error), str(path)) from error


def read_config(path: Path) -> dict[str, Any]:
    """Read a config.json and check its structure."""
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


def tensor_shapes(path: Path) -> dict[str, list[int]]:
    """Shapes of the tensors in a safetensors file, by name, without reading their values."""
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise AibError(f"{path} is truncated or not a safetensors file: {error}") from error


def load_weights(model: nn.Module, path: Path, *, other_classes: bool = False) -> list[str]:
    """Load weights; every name and shape has to match. Half precision is converted.

    With `other_classes` the file may be of a model for other classes: tensors of another shape
    are skipped, and their names returned.
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
        raise AibError(f"{path} cannot be used: {broken[0]} holds NaN or infinite values")
    shapes_only = any(value.is_meta for value in expected.values())
    # Not strict: of tied names only the first is in the file, and the others were checked above.
    model.load_state_dict(ready, strict=False, assign=shapes_only)
    return unlike


def unshared(model: nn.Module) -> dict[str, Tensor]:
    """The state by name, each tensor once: safetensors does not support tied weights."""
    seen: set[int] = set()
    state: dict[str, Tensor] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if id(value) not in seen:
            seen.add(id(value))
            state[name] = value
    return state


def _first(keys: list[str]) -> str:
    return f" ({keys[0]} first)" if keys else ""
