"""Atomic writes, locks, JSON, hashes and names of files."""

import errno
import hashlib
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aib.errors import AibError, first_line


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write atomically: to `path.PID.partial`, which is flushed and then renamed."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
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


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold this lock file; an error `busy` if another process has it.

    A kill releases the lock, too.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout as error:
        raise AibError(busy) from error
    except OSError as error:
        reason = describe_write_error(error, path)
        raise AibError(f"{path.parent} cannot be written: {reason}") from error
    try:
        yield
    finally:
        lock.release()


def check_writable(path: Path) -> None:
    """Raise an error if no file can be written there: before work whose result would be lost."""
    if path.is_dir():
        raise AibError(f"{path} cannot be written: it is a folder")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise AibError(f"{path} cannot be written: {above} is not a writable folder")


def check_suffix(path: Path, *suffixes: str) -> None:
    """Raise an error unless the name ends in one of these, so that no other file is overwritten."""
    if path.suffix.lower() not in suffixes:
        raise AibError(f"the name of the output must end in {' or '.join(suffixes)}, not '{path}'")


def describe_write_error(error: Exception, path: Path) -> str:
    """The reason why a file could not be written."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__  # torch replaces the OSError by errors of its own
    if not isinstance(cause, OSError):
        return first_line(error)
    if cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left in {path.parent}, free some"
    return os.strerror(cause.errno or errno.EIO)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read the object in a JSON file; None if there is no such file."""
    try:
        if not path.is_file():
            return None
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AibError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise AibError(f"{path} does not hold a JSON object")
    return value


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Write a JSON file atomically. NaN is an error; see `finite`."""
    write_text(path, json.dumps(value, indent=indent, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write text atomically. Bytes of file names that are no text are escaped."""
    write_whole(path, lambda partial: partial.write_text(text, "utf-8", "backslashreplace"))


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def quoted(value: Any) -> str:
    """A path or another value as one word of a shell command."""
    return shlex.quote(str(value))


def finite(value: Any) -> Any:
    """Replace what JSON does not have: NaN and infinity by None, numbers as keys by strings."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def without_folders(value: Any, keep: Collection[str] = ()) -> Any:
    """Cut absolute paths to their last name in a JSON value, but not under the keys in `keep`.

    A string that is a path may hold spaces, also after `folder:` or `--out=`; in a sentence or a
    command a space ends a path.
    """
    if isinstance(value, dict):
        return {
            without_folders(key): item if key in keep else without_folders(item, keep)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_folders(item, keep) for item in value]
    if isinstance(value, str):
        path = re.fullmatch(r"((?:--?[\w-]+=)?(?:\w+:)?)(/(?!/)[^:]+)(:.*)?", value)
        if path:
            return path[1] + Path(path[2]).name + (path[3] or "")
        return re.sub(r"(^|[\s=:'\"(])/(?!/)[^\s:'\"]*/", r"\1", value)
    return value
