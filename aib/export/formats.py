"""The two file formats, ONNX and torch.export: written to memory, and opened again."""

import io
import json
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aib.config.validation import Format
from aib.errors import AibError
from aib.export.one_pass import INPUT, OnePass

SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torch-export": ".pt2"}
METADATA = "aib"  # ONNX: the key of metadata_props; torch.export: the extra file aib.json

Runner = Callable[[Tensor], dict[str, Tensor]]  # pixels [B,3,S,S] to outputs by name


def to_torch_export(one_pass: OnePass, size: int, about: dict[str, Any]) -> bytes:
    """The bytes of a .pt2 file, for `torch.export.load`."""
    program, file = trace(one_pass, size), io.BytesIO()
    with quietly():
        torch.export.save(program, file, extra_files={f"{METADATA}.json": json.dumps(about)})
    return file.getvalue()


def to_onnx(one_pass: OnePass, size: int, about: dict[str, Any]) -> bytes:
    """The bytes of an .onnx file that holds its weights."""
    program = trace(one_pass, size)
    with quietly():
        made = torch.onnx.export(
            program,
            input_names=[INPUT],
            output_names=list(about["outputs"]),
            dynamic_shapes=({0: "batch"},),  # the name; the program knows its sizes already
            dynamo=True,
            verbose=False,
        )
    assert made is not None
    proto = made.model_proto
    for part in (proto, proto.graph, *proto.graph.node, *proto.graph.value_info):
        del part.metadata_props[:]  # source lines and folders of this machine
    proto.metadata_props.add(key=METADATA, value=json.dumps(about))
    return proto.SerializeToString()


def trace(one_pass: OnePass, size: int) -> torch.export.ExportedProgram:
    """Trace the graph, for any batch size and one image size."""
    # Two images: with one the tracer would treat the batch size as a constant.
    example = torch.zeros(2, 3, size, size)
    with quietly(), torch.no_grad():
        program = torch.export.export(
            one_pass, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},), strict=False
        )
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # folders of this machine
    return program


def open_onnx(content: bytes) -> Runner:
    """Open an .onnx file in onnxruntime on the CPU, with PyTorch's number of threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(pixels: Tensor) -> dict[str, Tensor]:
        found = session.run(names, {INPUT: pixels.numpy()})
        return dict(zip(names, map(torch.from_numpy, found), strict=True))

    return run


def open_torch_export(content: bytes) -> Runner:
    with quietly():
        return torch.export.load(io.BytesIO(content)).module()


def read_metadata(path: str | Path) -> dict[str, Any]:
    """The metadata of an exported file: classes, preprocessing, outputs, origin.

    The model in it is not loaded, so this is safe for files of unknown origin.
    """
    path = Path(path)
    try:
        if path.suffix == SUFFIXES["onnx"]:
            import onnx

            entries = onnx.load(path, load_external_data=False).metadata_props
            return dict(json.loads({entry.key: entry.value for entry in entries}[METADATA]))
        # As a zip: `torch.export.load` may unpickle, and so run, what a file holds.
        with zipfile.ZipFile(path) as archive:
            name = next(n for n in archive.namelist() if n.endswith(f"/{METADATA}.json"))
            return dict(json.loads(archive.read(name)))
    except Exception as error:  # protobuf, zip and JSON each have errors of their own
        raise AibError(f"{path} cannot be read as a file that aib exported") from error


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the exporters' warnings about deprecations and optional packages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
