"""Static 8-bit quantisation of an exported ONNX file by onnxruntime, and what it costs."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aib.errors import AibError
from aib.export.formats import METADATA, need_onnx, open_onnx, quietly
from aib.export.one_pass import INPUT
from aib.system.files import without_folders, write_whole

BATCH = 32
# The rest (sigmoid, anchors, softplus) is a thousandth of the work and not worth its precision.
QUANTISED = ["Conv", "MatMul", "Gemm"]


@dataclass(frozen=True)
class Int8:
    """A quantised file compared with the float32 file that it was made from."""

    path: Path
    bytes: int
    fp32_bytes: int
    calibration_images: int  # fewer than asked for where the data has no more
    images: int  # compared, none of them used for calibration
    agreement: float  # share of images with the same prediction
    differences: dict[str, float]  # largest absolute difference of each output and of probabilities
    mean_differences: dict[str, float]


def quantise(
    source: str | Path,
    path: str | Path,
    calibration: Tensor,
    compared: Tensor,
    data: str | None = None,
) -> Int8:
    """Write `path`, the file `source` in int8, and compare the two in onnxruntime.

    `calibration`, uint8 images [N,3,S,S], gives the range of every layer's values; `compared` are
    other images, so that the comparison is honest.
    """
    if len(calibration) == 0 or len(compared) == 0:
        raise AibError("int8 needs images to calibrate with and others to compare on")
    source, path = Path(source), Path(path)
    fp32 = source.read_bytes()
    about = {
        "scheme": "static, QDQ; weights int8 for each channel, activations int8",
        "calibrated_on": without_folders(data),
        "calibration_images": len(calibration),
    }
    made = to_int8(fp32, calibration, about)
    expected, found = (_outputs(file, compared) for file in (fp32, made))
    gaps = {name: (found[name] - expected[name]).abs() for name in expected}
    if not all(gap.isfinite().all() for gap in gaps.values()):
        raise AibError("the int8 model gives NaN or infinite values; no int8 file was written")
    write_whole(path, lambda partial: partial.write_bytes(made))
    same = expected["logits"].argmax(-1) == found["logits"].argmax(-1)
    return Int8(
        path=path,
        bytes=len(made),
        fp32_bytes=len(fp32),
        calibration_images=len(calibration),
        images=len(compared),
        agreement=same.float().mean().item(),
        differences={name: gap.max().item() for name, gap in gaps.items()},
        mean_differences={name: gap.mean().item() for name, gap in gaps.items()},
    )


def to_int8(fp32: bytes, calibration: Tensor, about: dict[str, Any]) -> bytes:
    """The bytes of the quantised file, with `about` in its metadata."""
    need_onnx()
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Images(CalibrationDataReader):
        batches = iter([{INPUT: (batch / 255).numpy()} for batch in calibration.split(BATCH)])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.batches, None)

    with tempfile.TemporaryDirectory() as folder, quietly():
        target, model = Path(folder) / "int8.onnx", onnx.load_from_string(fp32)
        quantize_static(model, target, Images(), per_channel=True, op_types_to_quantize=QUANTISED)
        proto = onnx.load(target)
    for entry in proto.metadata_props:
        if entry.key == METADATA:
            entry.value = json.dumps(json.loads(entry.value) | {"int8": about})
    return proto.SerializeToString()


def _outputs(file: bytes, images: Tensor) -> dict[str, Tensor]:
    """The file's outputs, and the probabilities: log-probabilities of -20 and -25 differ by 5."""
    run = open_onnx(file)
    parts = [run(batch / 255) for batch in images.split(BATCH)]
    found = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return {"probabilities": found["logits"].softmax(-1), **found}
