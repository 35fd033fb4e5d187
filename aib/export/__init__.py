"""Export a model to one file that runs without aib, compared with PyTorch before it is written.

export(model, "model.onnx")  # onnxruntime, and whatever else reads ONNX
export(model, "model.pt2", "torch-export")  # torch.export.load("model.pt2").module()
"""

from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aib.config.validation import check as check_value
from aib.errors import AibError, first_line, missing_extra
from aib.export.check import Check, check
from aib.export.formats import (
    SUFFIXES,
    Format,
    open_onnx,
    open_torch_export,
    read_metadata,
    to_onnx,
    to_torch_export,
)
from aib.export.one_pass import OnePass, describe, traceable
from aib.models.classifier import Classifier, check_model
from aib.system.files import check_writable, write_whole

__all__ = ["Check", "Exported", "Format", "export", "read_metadata"]

FORMATS = {"onnx": (to_onnx, open_onnx), "torch-export": (to_torch_export, open_torch_export)}


@dataclass(frozen=True)
class Exported:
    """An exported file and its differences from PyTorch."""

    path: Path
    bytes: int
    metadata: dict[str, Any]
    check: Check


def export(
    model: Classifier,
    path: str | Path,
    format: Format = "onnx",
    *,
    data: str | None = None,
    checksum: str | None = None,
) -> Exported:
    """Write one deterministic pass of `model` to `path`, for any number of images of its size.

    `data` and `checksum` (of the weights file) go into the metadata. A file that does not compute
    what the model computes is not written.
    """
    check_model(model, "export")
    path = check_target(Path(path), format)
    # A copy on the CPU in float32 and evaluation mode: what the file has to compute.
    reference, size = deepcopy(model).cpu().float().eval(), model.preprocessing.image_size
    about = describe(reference, format, data=data, checksum=checksum)
    make, reopen = FORMATS[format]
    try:
        content = make(OnePass(traceable(reference)).eval(), size, about)
    except Exception as error:  # a user's network may do what no graph can express
        reason = _reason(error)
        raise AibError(f"this network cannot be exported as {format}: {reason}") from error
    checked = check(reference, reopen(content)).require()
    write_whole(path, lambda partial: partial.write_bytes(content))
    return Exported(path, len(content), about, checked)


def _reason(error: BaseException) -> str:
    # torch's message lists steps of its developers; its cause names the operation.
    while str(error).startswith("Failed to convert") and error.__cause__ is not None:
        error = error.__cause__
    reason = first_line(error)
    if reason.startswith("Constraints violated (batch)"):
        return "it fixes the batch size, as `len(x)` does; use `x.shape[0]` in its forward"
    return reason


def check_target(path: Path, format: Format) -> Path:
    """Check format and path before the work begins."""
    check_value("format", format, Format)
    if path.suffix != SUFFIXES[format]:
        raise AibError(f"a file of format {format} ends in {SUFFIXES[format]}, unlike {path}")
    check_writable(path)
    for package in ("onnx", "onnxscript", "onnxruntime") if format == "onnx" else ():
        if find_spec(package) is None:
            raise missing_extra("onnx", f"ONNX needs {package}")
    return path
