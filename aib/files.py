"""Files: written whole or not at all, JSON read and written, hashed."""

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
    """Write beside `path`, flush, rename: a reader, or a crash, meets the old or the new file."""
    if not path.name:
        raise AibError(f"'{path}' does not name a file to write")
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as RuntimeError
        partial.unlink(missing_ok=True)
        kept = "; the one written before is untouched" if path.exists() else ""
        raise AibError(f"{path} could not be written: {why_not(error, path)}{kept}") from error


def why_not(error: Exception, path: Path) -> str:
    """Why a file could not be written, in a few words."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__  # torch raises errors of its own while it handles the disk's
    if not isinstance(cause, OSError):
        return str(error).partition("\n")[0]
    if cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left in {path.parent}, make room there"
    return os.strerror(cause.errno or errno.EIO)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if there is no such file."""
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
    """The inverse of `read_json`, whole or not at all."""
    text = json.dumps(value, indent=indent, allow_nan=False) + "\n"
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def sha256(path: Path) -> str:
    """Of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def finite(value: Any) -> Any:
    """JSON has no NaN: what is undefined becomes null."""
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
