"""aib: image classifiers whose attention you can trust."""

from aib.attach import attach
from aib.attention import SpatialAttention
from aib.bottleneck import AIB
from aib.classifier import Classifier
from aib.errors import AibError
from aib.latent import LinearHead, VariationalHead
from aib.loss import aib_loss
from aib.preprocessing import Preprocessing
from aib.pretrained import from_pretrained
from aib.quantize import AnchorQuantizer
from aib.registry import create_model, list_models
from aib.types import Attention, Explanation, Latent, LossTerms, Output

__version__ = "0.1.0"

__all__ = [
    "AIB",
    "AibError",
    "AnchorQuantizer",
    "Attention",
    "Classifier",
    "Explanation",
    "Latent",
    "LinearHead",
    "LossTerms",
    "Output",
    "Preprocessing",
    "SpatialAttention",
    "VariationalHead",
    "__version__",
    "aib_loss",
    "attach",
    "create_model",
    "from_pretrained",
    "list_models",
]
