"""Reading the pickled form of CIFAR without trusting it."""

import pickle
from pathlib import Path
from typing import Any

from aib.errors import AibError

# All that a dictionary of arrays and lists needs. numpy 2 renamed `core`; files hold either name.
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise AibError(f"asks for {module}.{name}, which no data file needs: not loaded")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def load_arrays(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle file, its byte-string keys as text; runs no code of the file."""
    if not path.is_file():
        raise AibError(f"{path} is missing: the set is incomplete, fetch it again")
    try:
        with path.open("rb") as file:
            content = _ArraysOnly(file, encoding="bytes").load()
    except AibError as error:
        raise AibError(f"{path} {error}") from error
    except Exception as error:  # a damaged pickle may fail in any way
        raise AibError(f"{path} is not a whole pickle file: fetch it again") from error
    if not isinstance(content, dict):
        raise AibError(f"{path} holds a {type(content).__name__}, not the dictionary expected")
    return {
        k.decode(errors="replace") if isinstance(k, bytes) else str(k): v
        for k, v in content.items()
    }
