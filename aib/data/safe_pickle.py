"""Read the pickled form of CIFAR without running any code of the file."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from aib.data.files import require_file
from aib.errors import AibError

INTEGERS = {f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)}


class _Dtype:
    """Replaces numpy.dtype, which accepts any state from a file and can then crash."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code, self.order = _text(code), "|"

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1])

    def read(self, data: bytes) -> Any:
        if self.code not in INTEGERS or self.order not in "|=<>":
            raise AibError(f"holds an array of type {self.code!r}, not of integers: not loaded")
        return np.frombuffer(data, self.order + self.code)


class _Array:
    """Replaces numpy.ndarray and the function that creates an empty one."""

    def __init__(self, *_: Any) -> None:
        self.value: Any = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, by_columns, data = state
        self.value = dtype.read(data).reshape(shape, order="F" if by_columns else "C")


class _NamedDict(dict[Any, Any]):
    """A dictionary with string keys. To hash another key, a deeply nested tuple, can crash."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_text(key), value)


def _text(value: Any) -> str:
    """A name as str: Python 2 wrote byte strings."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if not isinstance(value, str):
        raise AibError(f"has a {type(value).__name__} instead of a name: not loaded")
    return value


# Enough for a dictionary of arrays and lists. numpy 2 renamed `core`; files may have either name.
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
}


def _start_dictionary(unpickler: Any) -> None:
    unpickler.append(_NamedDict())


HASHING = pickle.DICT + pickle.EMPTY_SET + pickle.FROZENSET  # opcodes that accept any key
OPCODES = {code: f for code, f in pickle._Unpickler.dispatch.items() if code not in HASHING}


class _ArraysOnly(pickle._Unpickler):  # the C version allocates as much as a file asks for
    dispatch = OPCODES | {pickle.EMPTY_DICT[0]: _start_dictionary}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            wanted = f"{module}.{name}"
            raise AibError(f"refers to {wanted!r}, which no data file needs: not loaded")
        return ALLOWED[module, name]


def load_arrays(path: Path) -> dict[str, Any]:
    """Read the dictionary in a pickle file: keys as str, values plain types or integer arrays."""
    require_file(path)
    try:
        with path.open("rb") as file:
            content = _ArraysOnly(file, encoding="bytes").load()
    except AibError as error:
        raise AibError(f"{path} {error}") from error
    except Exception as error:  # a damaged pickle can raise anything
        raise AibError(f"{path} is not a complete pickle file: fetch it again") from error
    if not isinstance(content, dict):
        raise AibError(f"{path} holds a {type(content).__name__}, not a dictionary")
    return {k: v.value if isinstance(v, _Array) else v for k, v in content.items()}
