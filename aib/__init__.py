"""aib: image classifiers whose attention you can put to the test.

Public names are imported at first use: `import aib` alone imports neither torch nor Lightning.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aib.errors import AibError
from aib.version import __version__

if TYPE_CHECKING:
    from aib.config.options import ModelOptions as ModelOptions
    from aib.config.settings import Settings as Settings
    from aib.data.preprocessing import Preprocessing as Preprocessing
    from aib.evaluation.error import evaluate as evaluate
    from aib.figures.overlay import overlay as overlay
    from aib.interpret.maps import explain as explain
    from aib.models.attention import SpatialAttention as SpatialAttention
    from aib.models.bottleneck import AIB as AIB
    from aib.models.classifier import Classifier as Classifier
    from aib.models.explanation import Explanation as Explanation
    from aib.models.latent import LinearHead as LinearHead, VariationalHead as VariationalHead
    from aib.models.loss import aib_loss as aib_loss
    from aib.models.networks.attachment import attach as attach
    from aib.models.quantize import AnchorQuantizer as AnchorQuantizer
    from aib.models.registry import create_model as create_model, list_models as list_models
    from aib.models.types import (
        Attention as Attention,
        Latent as Latent,
        LossTerms as LossTerms,
        Output as Output,
    )
    from aib.report.push import push_to_hub as push_to_hub
    from aib.runs.pretrained import from_pretrained as from_pretrained
    from aib.training.distill import distill as distill
    from aib.training.fit import fit as fit
    from aib.training.warm_start import load_backbone as load_backbone

_LAZY = {  # the same names for the interpreter, with their modules
    "AIB": "aib.models.bottleneck",
    "AnchorQuantizer": "aib.models.quantize",
    "Attention": "aib.models.types",
    "Classifier": "aib.models.classifier",
    "Explanation": "aib.models.explanation",
    "Latent": "aib.models.types",
    "LinearHead": "aib.models.latent",
    "LossTerms": "aib.models.types",
    "ModelOptions": "aib.config.options",
    "Output": "aib.models.types",
    "Preprocessing": "aib.data.preprocessing",
    "Settings": "aib.config.settings",
    "SpatialAttention": "aib.models.attention",
    "VariationalHead": "aib.models.latent",
    "aib_loss": "aib.models.loss",
    "attach": "aib.models.networks.attachment",
    "create_model": "aib.models.registry",
    "distill": "aib.training.distill",
    "evaluate": "aib.evaluation.error",
    "explain": "aib.interpret.maps",
    "fit": "aib.training.fit",
    "from_pretrained": "aib.runs.pretrained",
    "list_models": "aib.models.registry",
    "load_backbone": "aib.training.warm_start",
    "overlay": "aib.figures.overlay",
    "push_to_hub": "aib.report.push",
}
_PACKAGES = ("data", "export", "interpret")  # as in aib.data.load(...)

__all__ = ["AibError", "__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"aib.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'aib' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
