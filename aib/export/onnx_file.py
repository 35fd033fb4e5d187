"""An ONNX file: written to memory, opened again, and its metadata read."""

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aib.errors import AibError
from aib.export.one_pass import INPUT, OnePass

METADATA = "aib"  # the key of metadata_props

Runner = Callable[[Tensor], dict[str, Tensor]]  # pixels [B,3,S,S] to outputs by name


def to_onnx(one_pass: OnePass, about: dict[str, Any]) -> bytes:
    """The bytes of a file that holds its weights, for any number of images of one size."""
    # Two images: with one the tracer would treat the batch size as a constant.
    example = torch.zeros(2, *about["input"]["shape"][1:])
    batch = torch.export.Dim("batch")
    with quietly(), torch.no_grad():
        program = torch.export.export(
            one_pass, (example,), dynamic_shapes=({0: batch},), strict=False
        )
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


def open_onnx(content: bytes) -> Runner:
    """Open a file in onnxruntime on the CPU, with PyTorch's number of threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(pixels: Tensor) -> dict[str, Tensor]:
        values = session.run(names, {INPUT: pixels.numpy()})
        return dict(zip(names, map(torch.from_numpy, values), strict=True))

    return run


def read_metadata(path: str | Path) -> dict[str, Any]:
    """The metadata of an exported file: classes, preprocessing, outputs, origin."""
    import onnx

    try:
        entries = onnx.load(path, load_external_data=False).metadata_props
        return dict(json.loads({entry.key: entry.value for entry in entries}[METADATA]))
    except Exception as error:  # protobuf and JSON have errors of their own
        raise AibError(f"{path} cannot be read as a file that aib exported") from error


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the exporter's warnings about deprecations and optional packages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
