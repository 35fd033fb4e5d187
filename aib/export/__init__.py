"""Export a model to one file that runs without aib, compared with PyTorch before it is written.

    from aib.export import export
    export(model, "model.onnx")  # onnxruntime, and whatever else reads ONNX
    export(model, "model.pt2", "torch-export")  # torch.export.load("model.pt2").module()

A model made with `attach` exports the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aib.config.validation import check as check_value
from aib.errors import AibError, first_line
from aib.export.check import Check, check
from aib.export.formats import (
    SUFFIXES,
    Format,
    need_onnx,
    open_onnx,
    open_torch_export,
    read_metadata,
    to_onnx,
    to_torch_export,
)
from aib.export.int8 import Int8, quantise
from aib.export.one_pass import OnePass, describe, settled, traceable
from aib.models.classifier import Classifier, check_model
from aib.system.files import check_writable, write_whole
from aib.system.progress import Tick, silent

__all__ = ["Check", "Exported", "Format", "Int8", "export", "quantise", "read_metadata"]

STEPS = 3  # of the progress: convert, compare, write


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
    tick: Tick = silent,
) -> Exported:
    """Write one deterministic pass of `model` to `path`; the model stays as it is.

    The file takes any number of images of the size in `model.preprocessing`. `data` and `checksum`
    (of the weights file) go into its metadata. If it does not compute what the model computes,
    nothing is written. A file that is there already is replaced.
    """
    check_model(model, "export")
    path = check_target(Path(path), format)
    reference, size = settled(model), model.preprocessing.image_size
    about = describe(reference, format, data=data, checksum=checksum)
    tick("converting", 0)
    make, reopen = _FORMATS[format]
    try:
        made = make(OnePass(traceable(reference)).eval(), size, about)
    except AibError:
        raise
    except Exception as error:  # a user's network may do what no graph can express
        cause: BaseException = error
        # This one of torch lists steps of its developers; the operation is named below it.
        while str(error).startswith("Failed to convert") and cause.__cause__ is not None:
            cause = cause.__cause__
        reason = first_line(cause)
        if reason.startswith("Constraints violated (batch)"):
            reason = "it fixes the batch size, as `len(x)` does; use `x.shape[0]` in its forward"
        raise AibError(f"this network cannot be exported as {format}: {reason}") from error
    tick("comparing with PyTorch", 1)
    checked = check(reference, reopen(made)).require()
    tick("writing", 1)
    write_whole(path, lambda partial: partial.write_bytes(made))
    tick("written", 1)
    return Exported(path, len(made), about, checked)


_FORMATS: dict[Format, tuple[Callable[..., bytes], Callable[..., Any]]] = {
    "onnx": (to_onnx, open_onnx),
    "torch-export": (to_torch_export, open_torch_export),
}


def check_target(path: Path, format: Format) -> Path:
    """Check the format and the path before the work begins."""
    check_value("format", format, Format)
    if path.suffix != SUFFIXES[format]:
        raise AibError(f"a file of format {format} ends in {SUFFIXES[format]}, unlike {path}")
    check_writable(path)
    if format == "onnx":
        need_onnx()
    return path
