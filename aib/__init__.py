"""aib: image classifiers whose attention you can put to the test.

Public names are imported at first use: `import aib` alone imports neither torch nor Lightning.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aib.errors import AibError
from aib.version import __version__

if TYPE_CHECKING:
    from aib.attention import SpatialAttention
    from aib.bottleneck import AIB
    from aib.classifier import Classifier
    from aib.evaluation import evaluate
    from aib.explanation import Explanation
    from aib.figures.overlay import overlay
    from aib.interpret.maps import explain
    from aib.latent import LinearHead, VariationalHead
    from aib.loss import aib_loss
    from aib.networks.attachment import attach
    from aib.options import ModelOptions
    from aib.preprocessing import Preprocessing
    from aib.pretrained import from_pretrained
    from aib.quantize import AnchorQuantizer
    from aib.registry import create_model, list_models
    from aib.report.push import push_to_hub
    from aib.settings import Settings
    from aib.training.fit import fit
    from aib.training.warm_start import load_backbone
    from aib.types import Attention, Latent, LossTerms, Output

# The same names for the interpreter, by module.
_MODULES = {
    "aib.networks.attachment": ["attach"],
    "aib.attention": ["SpatialAttention"],
    "aib.bottleneck": ["AIB"],
    "aib.classifier": ["Classifier"],
    "aib.evaluation": ["evaluate"],
    "aib.explanation": ["Explanation"],
    "aib.figures.overlay": ["overlay"],
    "aib.interpret.maps": ["explain"],
    "aib.latent": ["LinearHead", "VariationalHead"],
    "aib.loss": ["aib_loss"],
    "aib.options": ["ModelOptions"],
    "aib.preprocessing": ["Preprocessing"],
    "aib.pretrained": ["from_pretrained"],
    "aib.report.push": ["push_to_hub"],
    "aib.quantize": ["AnchorQuantizer"],
    "aib.registry": ["create_model", "list_models"],
    "aib.settings": ["Settings"],
    "aib.training.fit": ["fit"],
    "aib.types": ["Attention", "Latent", "LossTerms", "Output"],
    "aib.training.warm_start": ["load_backbone"],
}
_PACKAGES = ("data", "export", "interpret")  # as in aib.data.load(...)
_LAZY = {name: module for module, names in _MODULES.items() for name in names}

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
    "load_backbone",
    "overlay",
    "push_to_hub",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"aib.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'aib' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
