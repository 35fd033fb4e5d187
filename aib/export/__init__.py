"""Export a model to an ONNX file that runs without aib. It is compared with PyTorch first.

export(model, "model.onnx")
"""

from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aib.errors import AibError, first_line, missing_extra
from aib.export.check import Check, check
from aib.export.one_pass import OnePass, describe, traceable
from aib.export.onnx_file import open_onnx, read_metadata, to_onnx
from aib.models.classifier import Classifier, check_model
from aib.system.files import check_suffix, check_writable, write_whole

__all__ = ["Check", "Exported", "export", "read_metadata"]


@dataclass(frozen=True)
class Exported:
    """An exported file and its differences from PyTorch."""

    path: Path
    bytes: int
    metadata: dict[str, Any]
    check: Check


def export(
    model: Classifier, path: str | Path, *, data: str | None = None, checksum: str | None = None
) -> Exported:
    """Write one deterministic pass of `model` to `path`, for any number of images of its size.

    `data` and `checksum` (of the weights file) go into the metadata. A file that does not compute
    what the model computes is not written.
    """
    check_model(model, "export")
    path = Path(path)
    check_suffix(path, ".onnx")
    check_writable(path)
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(package) is None:
            raise missing_extra("onnx", f"ONNX needs {package}")
    # A copy on the CPU in float32 and evaluation mode: what the file has to compute.
    reference = deepcopy(model).cpu().float().eval()
    about = describe(reference, data=data, checksum=checksum)
    try:
        content = to_onnx(OnePass(traceable(reference)).eval(), about)
    except Exception as error:  # a user's network may do what no graph can express
        raise AibError(f"this network cannot be exported: {_reason(error)}") from error
    checked = check(reference, open_onnx(content))
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
