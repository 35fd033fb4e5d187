"""Networks by name: "timm:resnet50", "torchvision:resnet50", or "my_module:build" for your own.

A function of the user's own is imported only where the user names it, never because a file does.
"""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

from torch import nn

from aib.config.options import is_library_name
from aib.config.validation import reject_unknown
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, first_line, missing_extra
from aib.models.networks.layers import last_linear
from aib.models.weights import load_tensors, read_tensors

NAME = re.compile(r"[A-Za-z0-9_.]+")  # of a model: no address, no path


def build_network(
    name: str, *, pretrained: bool = False, download: bool = True, num_classes: int | None = None
) -> nn.Module:
    """The network of this name, with its own classes; one of timm with `num_classes`.

    `pretrained` gives the library's default weights; without `download` only the form that goes
    with them.
    """
    if not is_library_name(name):
        if pretrained:
            raise AibError(f"pretrained is for timm: and torchvision: networks, not {name}")
        return call_builder(name)
    library, model = _find(name)
    fetch = pretrained and download
    try:
        if library.__name__ == "timm":  # new classes, as some networks have none of their own
            return library.create_model(model, pretrained=fetch, num_classes=num_classes)
        options = {}
        if model.startswith("vit_"):  # its form depends on the size of its images
            default = library.get_model_weights(model).DEFAULT
            options["image_size"] = default.transforms().crop_size[0]
        return library.get_model(model, weights="DEFAULT" if fetch else None, **options)
    except Exception as error:  # of a download these are OSError, RuntimeError and HTTP errors
        what = f"the pretrained weights of {name}" if fetch else name
        raise AibError(f"{what} could not be loaded ({first_line(error)})") from error


def load_network(network: nn.Module, path: Path) -> None:
    """Load a file of weights by the network's names; its head may have other classes."""
    weights, head = read_tensors(path), f"{last_linear(network)}."
    own = network.state_dict()
    fresh = {n for n in own if n not in weights and n.endswith("num_batches_tracked")}
    other = {
        n for n in weights if n.startswith(head) and n in own and weights[n].shape != own[n].shape
    }
    kept = {name: value for name, value in weights.items() if name not in other}
    load_tensors(network, kept, path, fresh=fresh | other)


def call_builder(name: str) -> nn.Module:
    """The network that a function of the user's makes, in this folder or on PYTHONPATH."""
    module, _, function = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), function)):
        raise AibError(f"a backbone is written my_module:build, not {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:  # the `aib` command has its own folder there
        sys.path.insert(0, here)
    try:
        network = getattr(importlib.import_module(module), function)()
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise AibError(f"{name}, in this folder or on PYTHONPATH, failed ({reason})") from error
    if not isinstance(network, nn.Module):
        raise AibError(f"{name} must return an nn.Module, not a {type(network).__name__}")
    return network


def preprocessing_of(name: str, network: nn.Module) -> Preprocessing | None:
    """Image size and normalisation of a library's network; None for one of the user's own."""
    if not is_library_name(name):
        return None
    models, model = _find(name)
    if models.__name__ == "timm":
        config = models.data.resolve_model_data_config(network)
        size, mean, std = max(config["input_size"][1:]), config["mean"], config["std"]
    else:
        transforms = models.get_model_weights(model).DEFAULT.transforms()
        size, mean, std = transforms.crop_size[0], transforms.mean, transforms.std
    return Preprocessing(int(size), "crop", tuple(map(float, mean)), tuple(map(float, std)))


def _find(name: str) -> tuple[ModuleType, str]:
    """The library, and the name of the model in it; an unknown one is an error."""
    library, _, model = name.partition(":")
    if not NAME.fullmatch(model):
        raise AibError(f"{library}: needs the name of a model, such as {library}:resnet50")
    models = _library(library)
    names = models.list_models() if library == "timm" else models.list_models(module=models)
    architecture = model.partition(".")[0]  # timm: resnet50.a1_in1k is the same with other weights
    reject_unknown([architecture], names, f"{library} has no model")
    return models, model


def _library(library: str) -> ModuleType:
    try:
        if library == "timm":
            importlib.import_module("timm.data")
            return importlib.import_module("timm")
        return importlib.import_module("torchvision.models")
    except ModuleNotFoundError as error:
        raise missing_extra("timm", f"{library}: networks need {library}") from error
    except Exception as error:  # torchvision beside another torch than its own
        raise AibError(f"{library} cannot be imported: {first_line(error)}") from error
