"""The machine and how the process was started: recorded with every result."""

import os
import platform
import shlex
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from aib.errors import AibError
from aib.version import __version__


def environment() -> dict[str, Any]:
    """Versions, hardware and command line of this process."""
    packages = ("torch", "lightning", "numpy")
    cuda = torch.cuda.is_available()
    return {
        "python": platform.python_version(),
        "aib": __version__,
        **{package: _version(package) for package in packages},
        "device": torch.cuda.get_device_name() if cuda else platform.machine() + " CPU",
        "threads": torch.get_num_threads(),
        "command": command_line(),
    }


@cache  # it parses a file
def _version(package: str) -> str:
    return version(package)


def command_line() -> str | None:
    """The command that started this process: `aib` or `python -m aib`; else None."""
    program = Path(sys.argv[0])
    if program.name == "aib" or program == Path(__file__).parents[1] / "__main__.py":
        return shlex.join(["aib", *sys.argv[1:]])
    return None


def emulates_bf16() -> bool:
    """Whether this CPU has no instructions for bf16, which then takes tens of times as long."""
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return supported is not None and not supported()


def pick_device(name: str | None) -> torch.device:
    """The device of this name; without a name CUDA if available, else the CPU."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=device)
    except Exception as error:  # backends raise what they like
        raise AibError(f"no device {name!r} here; use cpu or cuda") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise AibError(f"models do not run on the device {name!r}; use cpu or cuda")
    return device


def machine_memory() -> int | None:
    """Bytes of physical memory; None where the system does not report it."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
