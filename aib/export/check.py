"""Is the exported file the same function as the model? Compared before it is written."""

from dataclasses import dataclass

import torch
from torch import Tensor

from aib.classifier import Classifier
from aib.data.shapes import read as read_shapes
from aib.errors import AibError
from aib.export.formats import Runner
from aib.export.one_pass import OnePass
from aib.preprocessing import Preprocessing

BATCHES = (1, 2, 7)  # a graph that has taken the batch for a constant fails at one of them
# Of the largest value of an output, or of 1. Float32 sums in another order differ by about 1e-6.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Check:
    """How far the file's outputs lie from PyTorch's, over all images."""

    images: int
    differences: dict[str, float]  # largest absolute one of each output
    limits: dict[str, float]
    places: int | None  # of all quantised maps; None where the model does not quantise
    other_level: int  # of these, how many lay on a boundary and fell to the other side of it

    def require(self) -> "Check":
        """Refuse a file that computes something else. A difference that is not a number fails."""
        for name, difference in self.differences.items():
            if not difference <= self.limits[name]:
                raise AibError(
                    f"the exported model is not the one in PyTorch: {name} differs by "
                    f"{difference:.2g}, and {self.limits[name]:.2g} is allowed; no file was written"
                )
        return self


@torch.no_grad()
def check(model: Classifier, run: Runner) -> Check:
    """Noise and drawn shapes through a settled model and through the file."""
    eager, pixels = OnePass(model), example_pixels(model.preprocessing.image_size)
    expected = eager(pixels)
    parts = [run(batch) for batch in pixels.split(BATCHES)]
    found = {name: torch.cat([part[name] for part in parts]) for name in expected}
    places, other_level = None, 0
    if model.quantizer is not None:
        places = found["attention"].numel()
        x = eager.normalise(pixels)
        flipped = on_a_boundary(model, x, expected["attention"], found["attention"])
        other_level = int(flipped.sum())
        if other_level:
            # The decision is compared for one map: PyTorch sees the features through the file's.
            seen = torch.where(flipped, found["attention"], expected["attention"])
            expected["attention"] = seen
            expected["logits"] = model(x, deterministic=True, attention_map=seen).logits
    return Check(
        images=len(pixels),
        differences={
            name: (found[name] - value).abs().max().item() for name, value in expected.items()
        },
        limits={
            name: TOLERANCE * max(1.0, value.abs().max().item()) for name, value in expected.items()
        },
        places=places,
        other_level=other_level,
    )


def on_a_boundary(model: Classifier, x: Tensor, expected: Tensor, found: Tensor) -> Tensor:
    """Where the file took another anchor, and the two are equally near but for rounding."""
    attention = model(x, deterministic=True).attention
    assert attention is not None and model.quantizer is not None
    levels = model.quantizer.anchors
    is_level = (found.unsqueeze(-1) - levels).abs().amin(-1) <= TOLERANCE
    detour = (attention.mu - found).abs() - (attention.mu - expected).abs()
    return (found != expected) & is_level & (detour <= 2 * TOLERANCE)


def example_pixels(size: int) -> Tensor:
    """Noise, and images that have edges and surfaces, as photographs have: [10,3,S,S] in 0..1."""
    count = sum(BATCHES)
    noise = torch.rand(count // 2, 3, size, size, generator=torch.Generator().manual_seed(0))
    shapes = read_shapes("test", count=count - len(noise))
    drawn = shapes.prepared_for(Preprocessing(image_size=size)).images
    assert drawn is not None
    return torch.cat([noise, drawn / 255])
