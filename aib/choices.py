"""The values that options choose from. The command line validates them without importing torch."""

from typing import Annotated, Literal

from aib.validation import at_least

ProfileName = Literal["paper", "released"]
Modulation = Literal["gate", "residual"]
Layout = Literal["nchw", "nhwc", "tokens"]  # of features
NumAnchors = Annotated[int, at_least(2)]
Precision = Literal["fp32", "bf16", "fp16"]
Cache = Literal["auto", "memory", "disk", "none"]  # of decoded images
Averaging = Literal["probabilities", "logits"]
Format = Literal["onnx", "torch-export"]
PosthocMethod = Literal["gradcam", "integrated_gradients", "saliency", "occlusion"]
Method = Literal["own", PosthocMethod]
THRESHOLD = 0.5  # where `aib explain` cuts a map for its box and mask


def is_network_name(model: str) -> bool:
    """Whether `model` names a network of a library or of the user's own, and no model of aib."""
    return ":" in model
