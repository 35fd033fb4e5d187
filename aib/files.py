"""Atomic writes, JSON and hashes of files."""

import errno
import hashlib
import json
import math
import os
import types
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from aib.errors import AibError


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write atomically: to a file beside `path`, which is flushed and then renamed."""
    if not path.name:
        raise AibError(f"'{path}' is not the name of a file")
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as RuntimeError
        partial.unlink(missing_ok=True)
        kept = "; the previous file is unchanged" if path.exists() else ""
        raise AibError(
            f"{path} could not be written: {describe_write_error(error, path)}{kept}"
        ) from error


def describe_write_error(error: Exception, path: Path) -> str:
    """The reason why a file could not be written."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__  # torch replaces the OSError by errors of its own
    if not isinstance(cause, OSError):
        return str(error).partition("\n")[0]
    if cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left in {path.parent}, free some"
    return os.strerror(cause.errno or errno.EIO)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read the object in a JSON file; None if there is no such file."""
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AibError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise AibError(f"{path} does not hold a JSON object")
    return value


def write_json(path: Path, value: Any, indent: int = 2) -> None:
    """Write a JSON file atomically. NaN is an error; see `finite`."""
    text = json.dumps(value, indent=indent, allow_nan=False) + "\n"
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def parse_json(kind: Any, value: Any, where: str) -> Any:
    """A dataclass, or the type of one of its fields, from plain JSON types.

    A missing key takes the field's default; unknown keys are ignored. An error names the field.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or (origin is Literal and value in arguments):
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _one_of([k for k in arguments if k is not type(None)], value, where)
    if origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        if len(kinds) == len(value):
            pairs = enumerate(zip(kinds, value, strict=True))
            return tuple(parse_json(k, v, f"{where}[{i}]") for i, (k, v) in pairs)
    if origin is dict and isinstance(value, dict):
        return {k: parse_json(arguments[1], v, f"{where}.{k}") for k, v in value.items()}
    if is_dataclass(kind) and isinstance(value, dict):
        return _dataclass_from(kind, value, where)
    if kind is float and type(value) is int and abs(value) < 1e300:  # JSON may write 1.0 as 1
        return float(value)
    if isinstance(kind, type) and type(value) is kind:  # bool is no int here
        return value
    raise AibError(f"{where} cannot be {value!s:.60}")


def _one_of(kinds: list[Any], value: Any, where: str) -> Any:
    for kind in kinds[:-1]:
        try:
            return parse_json(kind, value, where)
        except AibError:
            continue
    return parse_json(kinds[-1], value, where)


def _dataclass_from(kind: Any, value: dict[str, Any], where: str) -> Any:
    hints, names = typing.get_type_hints(kind), {field.name for field in fields(kind)}
    known = {k: parse_json(hints[k], v, f"{where}.{k}") for k, v in value.items() if k in names}
    try:
        return kind(**known)
    except TypeError as error:
        raise AibError(f"{where} lacks {str(error).partition(': ')[2]}") from error
