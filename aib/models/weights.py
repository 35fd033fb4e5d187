"""The file format of saved models: model.safetensors + config.json, nothing executable."""

import hashlib
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save as to_bytes
from torch import Tensor, nn

from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, counted, first_line
from aib.system.files import quoted, read_json, write_whole

SCHEMA = 1
WEIGHTS, CONFIG, CHECKPOINT = "model.safetensors", "config.json", "checkpoint.pt"
METRICS, EVALUATION, RESULT = "metrics.jsonl", "evaluation.json", "interpret.json"
SPLIT, LOCK = "split.json", ".lock"
_pickled = partial(torch.load, map_location="cpu", weights_only=True)
READERS: dict[str, Callable[[Path], Any]] = {  # of files of weights
    ".npz": np.load, ".safetensors": load_file, ".pth": _pickled, ".pt": _pickled,
}  # fmt: skip
RECORDS = (EVALUATION, RESULT, METRICS, SPLIT)  # that a model on the Hub may have


def write_weights(model: nn.Module, folder: Path) -> None:
    """Write the weights atomically as safetensors, from any device."""
    # Not save_file: its file is readable for nobody else, whatever the umask.
    write_whole(folder / WEIGHTS, lambda path: path.write_bytes(_to_bytes(model)))


def read_config(path: Path) -> dict[str, Any]:
    """Read and check a config.json."""
    if not path.is_file():
        raise AibError(f"{path.parent} is not a run: it has no {path.name}")
    config = read_json(path) or {}
    if not all(isinstance(config.get(key), dict) for key in ("model", "preprocessing")):
        raise AibError(f"{path} is not an aib model's config: it needs model and preprocessing")
    if config.get("schema") != SCHEMA:
        raise AibError(f"{path} has schema {config.get('schema')!r}; this version reads {SCHEMA}")
    return config


def read_preprocessing(path: Path) -> Preprocessing:
    """The preprocessing in a config.json."""
    return Preprocessing.from_dict(read_config(path)["preprocessing"], path)


def tensor_shapes(path: Path) -> dict[str, list[int]]:
    """Shapes of the tensors in a safetensors file, by name, without reading their values."""
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise AibError(f"{path} is truncated or not a safetensors file: {error}") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name; no code in the file is executed."""
    if path.suffix not in READERS:
        raise AibError(f"{path} cannot be read: weights are {', '.join(READERS)} files")
    try:
        weights = dict(READERS[path.suffix](path))
        return {name: torch.as_tensor(value) for name, value in weights.items()}
    except Exception as error:  # a damaged file raises any kind
        # torch's own sentence advises to run the file's code.
        reason = "damaged, or no tensors alone" if path.is_file() else first_line(error)
        raise AibError(f"{path} cannot be read as weights by name: {reason}") from error


def load_tensors(
    model: nn.Module,
    weights: dict[str, Tensor],
    path: Path,
    *,
    fresh: Container[str] = (),
    advice: str = "",
) -> None:
    """Load weights that were read from `path` into the model; every key and shape must match.

    The model's tensors in `fresh` are left as they are. `advice` ends the error for wrong keys.
    """
    expected = {name: v for name, v in unique_tensors(model).items() if name not in fresh}
    missing, unexpected = sorted(set(expected) - set(weights)), sorted(set(weights) - set(expected))
    if missing or unexpected:
        kinds = (("missing", missing), ("unexpected", unexpected))
        wrong = [
            f"{counted(len(names), 'tensor')} {kind} ({names[0]} first)"
            for kind, names in kinds
            if names
        ]
        raise AibError(f"{path} does not fit the model: {', '.join(wrong)}{advice}")
    for name, value in weights.items():
        if value.shape != expected[name].shape:
            raise AibError(f"{path} does not fit the model: {shapes(name, value, expected[name])}")
    ready = {name: value.to(expected[name].dtype, copy=True) for name, value in weights.items()}
    # If the sum is finite, so are the values; it takes a third of the time.
    broken = [n for n, v in ready.items() if not (v.sum().isfinite() or v.isfinite().all())]
    if broken:
        raise AibError(f"{path} cannot be used: {broken[0]} holds NaN or infinite values")
    on_meta = any(value.is_meta for value in expected.values())
    # Not strict: the file has only the first of tied names; all others were checked above.
    model.load_state_dict(ready, strict=False, assign=on_meta)


def shapes(name: str, saved: Tensor, expected: Tensor) -> str:
    """How a tensor of a file differs from the model's, for errors."""
    return f"{name} is {list(saved.shape)} in the file and {list(expected.shape)} in the model"


def weights_sha256(model: nn.Module) -> str:
    """SHA-256 of the model.safetensors that this model would be saved to."""
    return hashlib.sha256(_to_bytes(model)).hexdigest()


def _to_bytes(model: nn.Module) -> bytes:
    # Copies: some tensors may share memory, which safetensors does not take.
    copies = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in unique_tensors(model).items()
    }
    return to_bytes(copies, metadata={"format": "pt"})


def unique_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The state by name, each tensor once: safetensors does not know tied weights."""
    first: dict[int, tuple[str, Tensor]] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        first.setdefault(id(value), (name, value))
    return dict(first.values())


def how_to_resume(folder: Path) -> str:
    """What resumes an interrupted run: the command, or `fit` for a run that was begun in Python."""
    try:
        by_command = "training" not in read_config(folder / CONFIG)
    except AibError:  # it is not there, or damaged
        by_command = True
    call = f"aib.fit(..., run={str(folder)!r}, resume=True)"
    return f"`aib train --resume {quoted(folder)}`" if by_command else f"`{call}`"
