"""Where attention is attached: a copy of the network without its head, and one of its layers."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from aib.errors import AibError, first_line
from aib.models.modes import evaluating
from aib.models.networks.grid import ToGrid, read_grid
from aib.models.networks.layers import find_layer


class Site(NamedTuple):
    """A network without its head, and the layer whose features give the map."""

    network: nn.Module
    at: str
    to_grid: ToGrid  # of its features
    channels: int  # of the grid
    classifier: nn.Linear  # the head that was taken off


def find_site(network: nn.Module, at: str, head: str, image_size: int, masked: bool) -> Site:
    """Replace the network's head by an Identity, and read the features of its layer `at`.

    Unless `masked`, the features must be [B,c,h,w], and the network must process a larger batch
    from there on.
    """
    classifier = find_layer(network, head)
    if not isinstance(classifier, nn.Linear):
        raise AibError(f"the head {head!r} must be a Linear layer, not {type(classifier).__name__}")
    parent, _, leaf = head.rpartition(".")
    setattr(find_layer(network, parent), leaf, nn.Identity())
    f = probe(network, at, head, image_size, samples=1 if masked else 2)
    to_grid = read_grid(f.shape)
    gives = f"the layer {at!r} gives {list(f.shape)} for two images"
    if to_grid is None or len(f) != 2:
        raise AibError(f"{gives}, no grid of features; choose one before the network pools")
    if not masked and to_grid.layout != "nchw":
        raise AibError(f"{gives} and not [B, c, h, w]; choose another one, or masked=True")
    return Site(network, at, to_grid, to_grid(f).shape[1], classifier)


@torch.no_grad()
def probe(network: nn.Module, at: str, head: str, image_size: int, samples: int) -> Tensor:
    """The features at the layer `at` of two images of noise, from a pass of the whole network.

    They are repeated for `samples` samples: a network that cannot process them fails now.
    """
    # Not blank: without biases all features of a blank image are 0, whatever follows the head.
    x = torch.randn(2, 3, image_size, image_size, generator=torch.Generator().manual_seed(0))
    features: list[Tensor] = []
    embeddings: list[Tensor] = []

    def repeat(_layer: nn.Module, _inputs: Any, f: Any) -> Any:
        features.append(f)
        return torch.cat([f] * samples) if isinstance(f, Tensor) else f

    def record(_layer: nn.Module, _inputs: Any, e: Any) -> None:
        embeddings.append(e)

    hooks = find_layer(network, at).register_forward_hook(repeat)
    head_hook = find_layer(network, head).register_forward_hook(record)
    try:
        with evaluating(network), hooks, head_hook:
            result = network(x.to(next(network.parameters(), x)))
    except (RuntimeError, AssertionError, ValueError, TypeError, AttributeError) as error:
        raise AibError(_why(at, len(features), image_size, error)) from error
    if len(features) != 1 or not isinstance(features[0], Tensor):
        raise AibError(f"the layer {at!r} must run once in a forward pass and give one tensor")
    ends = isinstance(result, Tensor) and result.dim() == 2 and len(embeddings) == 1
    if not ends or not torch.equal(result, embeddings[0]):
        raise AibError(f"the network must end in its head {head!r}: name its last Linear layer")
    return features[0]


def _why(at: str, runs: int, image_size: int, error: Exception) -> str:
    reason = first_line(error)
    if runs > 1:
        return f"the layer {at!r} must run once in a forward pass, not {runs} times"
    if runs:
        return f"{at!r} cannot be sampled ({reason}); choose the end of its skip connection's block"
    size = f"{image_size} x {image_size}"
    return f"images of {size} do not pass to {at!r} ({reason}); give the network's image_size"
