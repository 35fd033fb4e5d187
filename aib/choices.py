"""The values that options choose from. The command line validates them without importing torch."""

from typing import Annotated, Literal

from aib.validation import at_least

ProfileName = Literal["paper", "released"]
Modulation = Literal["gate", "residual"]
NumAnchors = Annotated[int, at_least(2)]
Precision = Literal["fp32", "bf16", "fp16"]
Averaging = Literal["probabilities", "logits"]
Format = Literal["onnx", "torch-export"]
PosthocMethod = Literal["gradcam", "integrated_gradients", "saliency", "occlusion"]
Method = Literal["own", PosthocMethod]
