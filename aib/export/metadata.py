"""Metadata of an exported file: how to use it, and where it comes from."""

import hashlib
from typing import Any

import torch
from safetensors.torch import save as to_safetensors

from aib.classifier import Classifier, model_name
from aib.export.formats import Format
from aib.export.one_pass import INPUT, OnePass
from aib.version import __version__
from aib.weights import unique_tensors


def describe(
    model: Classifier, format: Format, *, data: str | None = None, checksum: str | None = None
) -> dict[str, Any]:
    """Metadata of a settled model in plain JSON types; `checksum` is that of its weights file."""
    size = model.preprocessing.image_size
    with torch.no_grad():
        outputs = OnePass(model)(torch.zeros(1, 3, size, size))
    quantizer = model.quantizer
    anchors = None if quantizer is None else quantizer.anchors.detach().sort().values.tolist()
    return {
        "aib": __version__,
        "format": format,
        "model": model_name(model),
        "recipe": model.recipe,
        "profile": model.profile,
        "data": data,
        "weights_sha256": checksum or weights_checksum(model),
        "preprocessing": model.preprocessing.to_dict(),
        "input": {
            "name": INPUT,
            "shape": ["batch", 3, size, size],
            "values": "RGB in 0..1, float32; preprocessing.resize gives the size, "
            "mean and std are applied inside",
        },
        "outputs": {
            name: {"shape": ["batch", *value.shape[1:]], "values": _meaning(name, model)}
            for name, value in outputs.items()
        },
        "anchors": anchors,  # the values of a quantised map, rising
        "samples": "deterministic",
        "int8": None,
    }


def weights_checksum(model: Classifier) -> str:
    """SHA-256 of the model.safetensors that this model would be saved to."""
    weights = {
        name: value.detach().cpu().contiguous() for name, value in unique_tensors(model).items()
    }
    return hashlib.sha256(to_safetensors(weights, metadata={"format": "pt"})).hexdigest()


def _meaning(name: str, model: Classifier) -> str:
    if name == "logits":
        return "log-probabilities" if model.profile == "paper" else "logits"
    if name == "bits":
        return "bits per pixel that the mask lets through, at most"
    if name == "map" and model.takes_mask:
        return "the mask: the share of each pixel that the classifier sees"
    if name == "sigma":
        return "sigma_a, the standard deviation of the attention"
    if model.quantizer is not None:
        return "a_q, mu_a at its nearest anchor"
    return "mu_a, the mean of the attention"
