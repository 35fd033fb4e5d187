"""Compare an exported file with PyTorch, before it is written."""

from dataclasses import dataclass
from timeit import repeat

import torch
from torch import Tensor

from aib.data.preprocessing import Preprocessing
from aib.data.shapes import read as read_shapes
from aib.errors import AibError
from aib.export.one_pass import OnePass
from aib.export.onnx_file import Runner
from aib.models.classifier import Classifier

BATCHES = (1, 2, 7)  # a graph that treats the batch size as a constant fails at one of them
# Relative to the largest value of an output, or to 1. Float32 sums in another order differ by 1e-6.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Check:
    """The differences between the file's outputs and PyTorch's, over all images."""

    images: int
    differences: dict[str, float]  # largest absolute difference of each output
    other_level: int  # positions midway between two anchors that took the other one
    milliseconds: float  # of one image in the file, on this machine
    pytorch_milliseconds: float


@torch.no_grad()
def check(model: Classifier, run: Runner) -> Check:
    """Run noise and drawn shapes through the model and through the file.

    An output that differs by more than rounding, or by NaN, is an error.
    """
    eager, pixels = OnePass(model), example_pixels(model.preprocessing.image_size)
    expected = eager(pixels)
    parts = [run(batch) for batch in pixels.split(BATCHES)]
    outputs = {name: torch.cat([part[name] for part in parts]) for name in expected}
    other_level = 0
    if model.quantizer is not None:
        x = eager.normalise(pixels)
        tied = is_tie(model, x, expected["map"], outputs["map"])
        other_level = int(tied.sum())
        # Where rounding decides between two anchors, PyTorch decides under the file's map.
        attention_map = torch.where(tied, outputs["map"], expected["map"])
        expected |= eager.outputs(x, attention_map=attention_map)
    differences = {name: float((outputs[name] - v).abs().max()) for name, v in expected.items()}
    for name, difference in differences.items():
        limit = TOLERANCE * max(1.0, float(expected[name].abs().max()))
        if not difference <= limit:
            raise AibError(
                f"the exported model is not the one in PyTorch: {name} differs by "
                f"{difference:.2g}, and {limit:.2g} is allowed; no file was written"
            )
    times = (milliseconds(one, pixels[:1]) for one in (run, eager))
    return Check(len(pixels), differences, other_level, *times)


def milliseconds(run: Runner | OnePass, pixels: Tensor, calls: int = 5) -> float:
    """The shortest time of a few calls."""
    return 1e3 * min(repeat(lambda: run(pixels), number=1, repeat=calls))


def is_tie(model: Classifier, x: Tensor, expected: Tensor, actual: Tensor) -> Tensor:
    """Where the file took another anchor, and both are equally near but for rounding."""
    attention = model(x, deterministic=True).attention
    assert attention is not None and model.quantizer is not None
    is_anchor = (actual.unsqueeze(-1) - model.quantizer.anchors).abs().amin(-1) <= TOLERANCE
    farther = (attention.mu - actual).abs() - (attention.mu - expected).abs()
    return (actual != expected) & is_anchor & (farther <= 2 * TOLERANCE)


def example_pixels(size: int) -> Tensor:
    """Noise, and shapes with edges and surfaces as in photographs: [10,3,S,S] in 0..1."""
    count = sum(BATCHES)
    noise = torch.rand(count // 2, 3, size, size, generator=torch.Generator().manual_seed(0))
    shapes = read_shapes("test", count=count - len(noise))
    images = shapes.prepared_for(Preprocessing(image_size=size)).images
    assert images is not None
    return torch.cat([noise, images / 255])
