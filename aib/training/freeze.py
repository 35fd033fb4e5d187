"""Layers that are not trained."""

from collections.abc import Collection, Iterator

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from aib.errors import AibError
from aib.models.networks.layers import find_layer


class FrozenLayers:
    """The layers of these names: no gradient, and BatchNorm in evaluation mode.

    Of the parameters that `pretrained` names, only BatchNorm's statistics stay.
    """

    def __init__(self, model: nn.Module, names: tuple[str, ...], pretrained: Collection[str]):
        self.norms = frozen_norms(model, names, pretrained)
        inside = [p for name in names for p in find_layer(model, name).parameters()]
        self.parameters = [p for p in inside if p.requires_grad]
        for parameter in self.parameters:
            parameter.requires_grad_(False)
        if not any(p.requires_grad for p in model.parameters()):
            self.release()
            raise AibError("the model has no parameter left to train: freeze fewer layers")

    def hold(self) -> None:
        """Put BatchNorm back into evaluation mode, after the whole model went into training."""
        for norm in self.norms:
            norm.eval()

    def release(self) -> None:
        """Let the parameters be trained again."""
        for parameter in self.parameters:
            parameter.requires_grad_(True)


def frozen_norms(
    model: nn.Module, names: tuple[str, ...], pretrained: Collection[str]
) -> list[_NormBase]:
    """The BatchNorm layers that keep their statistics: see `FrozenLayers`."""
    kept: set[nn.Module] = set(norms_in(model, names))
    kept |= {model.get_submodule(name.rpartition(".")[0]) for name in pretrained}
    return [norm for norm in norms_in(model) if norm in kept]


def norms_in(model: nn.Module, names: tuple[str, ...] = ("",)) -> Iterator[_NormBase]:
    """The BatchNorm layers inside the layers of these names; "" is the whole model."""
    for name in names:
        for layer in find_layer(model, name).modules():
            if isinstance(layer, _NormBase) and layer.track_running_stats:
                yield layer
