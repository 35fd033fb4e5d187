"""aib: image classifiers whose attention you can put to the test."""

from typing import TYPE_CHECKING, Any

from aib.attach import attach
from aib.attention import SpatialAttention
from aib.bottleneck import AIB
from aib.classifier import Classifier
from aib.errors import AibError
from aib.explanation import Explanation
from aib.latent import LinearHead, VariationalHead
from aib.loss import aib_loss
from aib.options import ModelOptions
from aib.preprocessing import Preprocessing
from aib.pretrained import from_pretrained
from aib.quantize import AnchorQuantizer
from aib.registry import create_model, list_models
from aib.types import Attention, Latent, LossTerms, Output
from aib.version import __version__

if TYPE_CHECKING:
    from aib.evaluation import evaluate
    from aib.figures.overlay import overlay
    from aib.interpret.maps import explain
    from aib.settings import Settings
    from aib.training.loop import fit


# Imported at first use: training imports Lightning, which takes seconds.
_LAZY = {
    "Settings": "aib.settings",
    "evaluate": "aib.evaluation",
    "explain": "aib.interpret.maps",
    "fit": "aib.training.loop",
    "overlay": "aib.figures.overlay",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'aib' has no attribute {name!r}")


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
    "ModelOptions",
    "Output",
    "Preprocessing",
    "Settings",
    "SpatialAttention",
    "VariationalHead",
    "__version__",
    "aib_loss",
    "attach",
    "create_model",
    "evaluate",
    "explain",
    "fit",
    "from_pretrained",
    "list_models",
    "overlay",
]
