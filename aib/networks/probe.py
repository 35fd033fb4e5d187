"""Pass blank images through a network before anything is attached."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from aib.backbones.compose import describe
from aib.errors import AibError
from aib.networks.layers import find_layer
from aib.networks.layout import image_readings
from aib.types import split_heads


def probe_channels(
    network: nn.Module, at: str, head: str, image_size: int
) -> tuple[int, list[str]]:
    """Channels of the features [B,c,h,w] at the layer `at`, which attention is to modulate.

    Also the names of the Linear layers that auxiliary heads end in.

    The layer's output is repeated, as for two attention samples: a network that cannot process a
    larger batch from there on fails now and not in training.
    """

    def repeat(f: Any) -> Tensor:
        if not isinstance(f, Tensor) or f.dim() != 4 or len(f) != 2:
            raise AibError(
                f"the layer {at!r} must give features [B, c, h, w]; for a batch of 2 it gives "
                f"{describe(f)}"
            )
        return f.repeat(2, 1, 1, 1)

    f, grown, auxiliary = _probe(network, at, head, image_size, repeat)
    if [reading.layout for reading in image_readings(f.shape, grown)] == ["nhwc"]:
        raise AibError(
            f"the layer {at!r} gives channels last, {describe(f)} for 2 images of {image_size} x "
            f"{image_size}, and attach needs [B, c, h, w]: choose a layer after the network "
            "has moved its channels to axis 1, such as 'permute' in torchvision's Swin"
        )
    return f.shape[1], auxiliary


def probe_features(
    network: nn.Module, at: str, head: str, image_size: int
) -> tuple[Tensor, list[int] | None, list[str]]:
    """The features at the layer `at`, in any layout, of two blank images.

    Also their shape for images of twice the side, or None where the network does not take them,
    and the names of the Linear layers that auxiliary heads end in.
    """

    def check_grid(f: Any) -> Any:
        if not isinstance(f, Tensor) or f.dim() not in (3, 4) or len(f) != 2:
            raise AibError(
                f"the layer {at!r} gives no grid of features: for a batch of 2 it gives "
                f"{describe(f)}; choose a layer before the network pools"
            )
        return f

    return _probe(network, at, head, image_size, check_grid)


@torch.no_grad()
def _probe(
    network: nn.Module, at: str, head: str, image_size: int, change: Callable[[Any], Any]
) -> tuple[Tensor, list[int] | None, list[str]]:
    """The features of two blank images, and their shape for images of twice the side.

    Also the names of the Linear layers that auxiliary heads end in: they run in training only.
    `network` has an Identity in place of its head, and is a copy made for this: a pass in training
    mode changes the statistics of its normalisation layers. `change` checks or replaces the
    layer's output.
    """
    weight = next(network.parameters(), torch.empty(0))
    x = torch.zeros(2, 3, image_size, image_size, device=weight.device, dtype=weight.dtype)
    network.eval()
    f, _ = _pass(network, at, head, x, change)
    grown = _grown_shape(network, at, x)
    network.train()
    for layer in network.modules():
        if isinstance(layer, nn.SyncBatchNorm):  # on a CPU it can only be evaluated
            layer.eval()
    cuda = [weight.device] if weight.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):  # dropout samples
        _, auxiliary = _pass(network, at, head, x, change)
    return f, grown, auxiliary


def _pass(
    network: nn.Module, at: str, head: str, x: Tensor, change: Callable[[Any], Any]
) -> tuple[Tensor, list[str]]:
    """The features at the layer `at`, from a pass through the whole network; auxiliary heads."""
    features: list[Any] = []
    embeddings: list[Any] = []
    rows: list[int] = []

    def record_features(_layer: nn.Module, _inputs: Any, f: Any) -> Any:
        features.append(f)
        if len(features) > 1:
            raise AibError(
                f"the layer {at!r} runs more than once in a forward pass; choose one that runs once"
            )
        changed = change(f)
        rows.append(len(changed))
        return changed

    def record_embeddings(_layer: nn.Module, _inputs: Any, e: Any) -> None:
        embeddings.append(e)

    linear: dict[nn.Module, str] = {
        layer: name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)
    }
    outputs: list[tuple[Any, str]] = []

    def record_linear(layer: nn.Module, _inputs: Any, y: Any) -> None:
        outputs.append((y, linear[layer]))

    layer, end = find_layer(network, at), find_layer(network, head)
    hooks = [
        layer.register_forward_hook(record_features),
        end.register_forward_hook(record_embeddings),
        *(one.register_forward_hook(record_linear) for one in linear),
    ]
    try:
        result = network(x)
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise AibError(
            f"a {x.shape[2]} x {x.shape[3]} image does not pass from {at!r} to the end "
            f"({reason}); if {at!r} sits inside a skip connection, choose the "
            "end of its block, and give the network's own image_size"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    if not features:
        raise AibError(f"the layer {at!r} does not run in a forward pass")
    e, auxiliary = _split(network, result, outputs)
    if not isinstance(e, Tensor) or e.dim() != 2 or len(e) != rows[0]:
        raise AibError(
            f"with its head {head!r} removed the network must give [{rows[0]}, d] for a batch of "
            f"{rows[0]} at {at!r}, not {describe(e)}"
        )
    if len(embeddings) != 1 or not torch.equal(e, embeddings[0]):
        raise AibError(
            f"the network must end in its head {head!r}, and something comes after it; name the "
            "last Linear layer with head=, or remove what follows it"
        )
    return features[0], auxiliary


def _split(
    network: nn.Module, result: Any, outputs: list[tuple[Any, str]]
) -> tuple[Any, list[str]]:
    """The main output, and the names of the Linear layers that gave the others."""
    if not network.training or isinstance(result, Tensor):
        return result, []
    main, heads = split_heads(result) if isinstance(result, tuple) and result else (None, ())
    names = [name for head in heads for y, name in outputs if y is head]
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
    try:
        network(x[:1].repeat(1, 1, 2, 2))
    except Exception:  # the network may not take this size; the hook may have run before
        pass
    finally:
        hook.remove()
    return list(grown[0].shape) if grown and isinstance(grown[0], Tensor) else None
