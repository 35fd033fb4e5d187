"""aib: image classifiers whose attention you can trust."""

from aib.errors import AibError

__version__ = "0.1.0"

__all__ = ["AibError", "__version__"]
