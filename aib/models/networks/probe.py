"""Pass noise through a network before anything is attached."""

from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch import Tensor, nn

from aib.errors import AibError, first_line
from aib.models.networks.layers import find_layer
from aib.models.types import split_heads


@torch.no_grad()
def probe_features(
    network: nn.Module, at: str, head: str, image_size: int, repeat: bool
) -> tuple[Tensor, list[int] | None, list[str]]:
    """The features at the layer `at` of two images of noise.

    Also their shape for images of twice the side, or None where the network does not take them,
    and the names of the Linear layers that auxiliary heads end in: they run in training only.

    With `repeat` the features are [B,c,h,w] and repeated, as for two attention samples: a network
    that cannot process a larger batch from there on fails now and not in training.

    `network` has an Identity in place of its head, and is a copy made for this: a pass in training
    mode changes the statistics of its normalisation layers.
    """
    weight = next(network.parameters(), torch.empty(0))
    # Not blank: a network without biases gives 0 for those, whatever comes after its head, and one
    # that divides by their standard deviation gives NaN.
    seeded = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, image_size, image_size, generator=seeded).to(weight)
    network.eval()
    f, _ = _pass(network, at, head, x, repeat)
    grown = _grown_shape(network, at, x)
    network.train()
    for layer in network.modules():
        if isinstance(layer, nn.SyncBatchNorm):  # on a CPU it can only be evaluated
            layer.eval()
    cuda = [weight.device] if weight.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):  # dropout samples
        _, auxiliary = _pass(network, at, head, x, repeat)
    return f, grown, auxiliary


def _pass(
    network: nn.Module, at: str, head: str, x: Tensor, repeat: bool
) -> tuple[Tensor, list[str]]:
    """The features at the layer `at`, from a pass through the whole network; auxiliary heads."""
    features: list[Tensor] = []
    outputs: list[tuple[str, Any]] = []

    def read(_layer: nn.Module, _inputs: Any, f: Any) -> Tensor:
        if features:
            raise AibError(
                f"the layer {at!r} runs more than once in a forward pass; choose one that runs once"
            )
        if not isinstance(f, Tensor) or f.dim() not in ((4,) if repeat else (3, 4)) or len(f) != 2:
            wanted = "features [B, c, h, w]" if repeat else "a grid of features"
            tokens = isinstance(f, Tensor) and f.dim() == 3
            raise AibError(
                f"the layer {at!r} must give {wanted}; for a batch of 2 it gives {describe(f)}: "
                + ("masked=True takes tokens too, or " if repeat and tokens else "")
                + "choose a layer before the network pools"
            )
        features.append(f)
        return f.repeat(2, 1, 1, 1) if repeat else f

    def record(layer: nn.Module, _inputs: Any, y: Any) -> None:
        outputs.append((names[layer], y))

    names = {find_layer(network, head): head}
    names |= {m: name for name, m in network.named_modules() if isinstance(m, nn.Linear)}
    try:
        with ExitStack() as hooks:
            for layer in names:
                hooks.enter_context(layer.register_forward_hook(record))
            hooks.enter_context(find_layer(network, at).register_forward_hook(read))
            result = network(x)
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        if not features:
            raise AibError(
                f"a {x.shape[2]} x {x.shape[3]} image does not pass to {at!r} "
                f"({first_line(error)}): attach needs a network that takes only images, of three "
                "channels; if their size is wrong, give its own image_size"
            ) from error
        raise AibError(
            f"a {x.shape[2]} x {x.shape[3]} image does not pass from {at!r} to the end "
            f"({first_line(error)}); if {at!r} sits inside a skip connection, choose the "
            "end of its block, and give the network's own image_size"
        ) from error
    if not features:
        raise AibError(f"the layer {at!r} does not run in a forward pass")
    e, auxiliary = _split(network, result, outputs)
    rows = 2 * len(features[0]) if repeat else len(features[0])
    if not isinstance(e, Tensor) or e.dim() != 2 or len(e) != rows:
        raise AibError(
            f"with its head {head!r} removed the network must give [{rows}, d] for a batch of "
            f"{rows} at {at!r}, not {describe(e)}"
        )
    embeddings = [y for name, y in outputs if name == head]
    if len(embeddings) != 1 or not torch.equal(e, embeddings[0]):
        raise AibError(
            f"the network must end in its head {head!r}, and something comes after it; name the "
            "last Linear layer with head=, or remove what follows it"
        )
    return features[0], auxiliary


def _split(
    network: nn.Module, result: Any, outputs: list[tuple[str, Any]]
) -> tuple[Any, list[str]]:
    """The main output, and the names of the Linear layers that gave the others."""
    if not network.training or isinstance(result, Tensor):
        return result, []
    main, heads = split_heads(result) if isinstance(result, tuple) and result else (None, ())
    names = [name for head in heads for name, y in outputs if y is head]
    if not isinstance(main, Tensor) or len(names) != len(heads):
        raise AibError(
            f"in training mode {type(network).__name__} gives {describe(result)}, and not one "
            "tensor or a tuple of it and the logits of auxiliary heads that end in a Linear layer: "
            "wrap it so that it gives its main output only"
        )
    return main, names


def _grown_shape(network: nn.Module, at: str, x: Tensor) -> list[int] | None:
    """Shape of the features of an image of twice the side; None if the network does not take it."""
    grown: list[Any] = []
    hook = find_layer(network, at).register_forward_hook(lambda _, __, g: grown.append(g))
    with hook, suppress(Exception):  # the network may not take this size
        network(x[:1].repeat(1, 1, 2, 2))
    return list(grown[0].shape) if grown and isinstance(grown[0], Tensor) else None


def describe(value: object) -> str:
    """The shape of a tensor, or the type of anything else, for an error message."""
    return f"{list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
