"""The function that is exported, one deterministic pass from pixels to named outputs, and its
metadata: how to use the file, and where it comes from."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from aib.data.preprocessing import normalise
from aib.models.classifier import Classifier, model_name
from aib.models.gaussian import widen
from aib.models.masked import Masked
from aib.models.quantize import AnchorQuantizer, Quantized
from aib.models.types import Output
from aib.models.weights import weights_sha256
from aib.system.files import without_folders
from aib.version import __version__

INPUT = "pixels"


class OnePass(nn.Module):
    """RGB pixels in 0..1 [B,3,S,S] to logits [B,C], map and sigma [B,h,w], as far as it has them.

    The normalisation is inside, so that nobody can forget it. The map is a_q where the model
    quantises, otherwise mu_a. Of a masked model the map is the mask, with the bits that it lets
    through, [B,S,S] each; `attention` [B,h,w] is the map before it is enlarged.
    """

    mean: Tensor  # [3,1,1]
    std: Tensor

    def __init__(self, model: Classifier):
        super().__init__()
        self.model = model
        mean, std = model.preprocessing.statistics()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        return self.outputs(self.normalise(pixels))

    def outputs(self, x: Tensor, attention_map: Tensor | None = None) -> dict[str, Tensor]:
        """The outputs for normalised images, with the model's map or a given one."""
        out: Output = self.model(x, deterministic=True, attention_map=attention_map)
        outputs = {"logits": out.logits}
        if out.attention is None:
            return outputs
        if isinstance(self.model, Masked) and out.mask is not None:
            outputs["map"], outputs["bits"] = out.mask[0], self.model.pixel_bits(x, out.mask)[0]
        outputs["map" if out.mask is None else "attention"] = out.attention.a_q[0]
        if out.attention.sigma is not None:
            outputs["sigma"] = out.attention.sigma
        return outputs

    def normalise(self, pixels: Tensor) -> Tensor:
        return normalise(pixels, self.mean, self.std)


class FixedLevels(nn.Module):
    """The quantiser of a trained model, with its anchors sorted in advance.

    ONNX has neither a stable sort nor a binary search. Counting the boundaries below a
    score gives the same index, and a score on a boundary still falls to the lower anchor.
    """

    ordered: Tensor  # [Q]
    midpoints: Tensor

    def __init__(self, quantizer: AnchorQuantizer):
        super().__init__()
        ordered = widen(quantizer.anchors.detach()).sort().values
        self.register_buffer("ordered", ordered)
        self.register_buffer("midpoints", (ordered[1:] + ordered[:-1]) / 2)

    def forward(self, a: Tensor) -> Quantized:
        indices = (a.unsqueeze(-1) > self.midpoints).sum(-1)
        nothing = self.ordered.new_zeros(())  # an exported model has no loss
        return Quantized(self.ordered[indices], indices, nothing, nothing)


def traceable(model: Classifier) -> Classifier:
    """A copy of a model that the exporter can convert."""
    copy = deepcopy(model)
    if isinstance(copy.quantizer, AnchorQuantizer):
        copy.quantizer = FixedLevels(copy.quantizer)  # type: ignore[assignment]
    return copy


def describe(
    model: Classifier, *, data: str | None = None, checksum: str | None = None
) -> dict[str, Any]:
    """Metadata of a model in plain JSON types; `checksum` is that of its weights file."""
    size = model.preprocessing.image_size
    with torch.no_grad():
        outputs = OnePass(model)(torch.zeros(1, 3, size, size))
    quantizer = model.quantizer
    anchors = None if quantizer is None else quantizer.anchors.detach().sort().values.tolist()
    return {
        "aib": __version__,
        "model": model_name(model),
        "recipe": model.recipe,
        "profile": model.profile,
        "data": without_folders(data),
        "weights_sha256": checksum or weights_sha256(model),
        "preprocessing": model.preprocessing.to_dict(),
        "input": {
            "name": INPUT,
            "shape": ["batch", 3, size, size],
            "values": "RGB in 0..1, float32; preprocessing.resize gives the size, "
            "mean and std are applied inside",
        },
        "outputs": {name: ["batch", *value.shape[1:]] for name, value in outputs.items()},
        "anchors": anchors,  # the values of a quantised map, rising
        "samples": "deterministic",
    }
