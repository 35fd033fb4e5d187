"""Add attention with an information bottleneck to any CNN, at one of its layers."""

import difflib
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from aib.attention import SpatialAttention
from aib.backbones.parts import guided, maps_of_classes
from aib.bottleneck import AIB
from aib.classifier import check_classes
from aib.compose import describe
from aib.errors import AibError
from aib.latent import VariationalHead, mlp_decoder
from aib.options import ModelOptions
from aib.preprocessing import Preprocessing, check_image_size
from aib.profiles import get_profile
from aib.types import Given, Output, Sampling
from aib.validation import reject_unknown

# The options of `create_model` that apply to any network.
OPTIONS = ("latent_dim", "modulation", "attention_noise", "attention_guide", "profile")
LATENT_DIM = 256


def attach(
    backbone: nn.Module,
    at: str,
    num_classes: int,
    *,
    quantizer: int | None = None,
    head: str | None = None,
    image_size: int = 224,
    preprocessing: Preprocessing | None = None,
    **options: Any,
) -> "AttachedAIB":
    """A copy of `backbone` with attention and an information bottleneck at its layer `at`.

    Everything after `at` runs once per attention sample. The network's last Linear layer (or the
    one named `head`) is replaced by the bottleneck: latent, decoder, `num_classes` logits. The
    layer's output must be [B,c,h,w], without a skip connection around it: attach to the end of a
    block, such as "layer2" of a ResNet, not to a layer inside one. Features with channels last,
    [B,h,w,c], are an error, except where they cannot be told from channels first: c = h = w in a
    network that takes one image size only.

    `quantizer` is the number of anchors. The other options are those of `create_model`:
    latent_dim (256 unless given), modulation, attention_noise, attention_guide and profile.
    """
    reject_unknown(options, OPTIONS, "attach has no option")
    chosen = ModelOptions(**options)
    latent_dim = chosen.latent_dim or LATENT_DIM
    check_classes(num_classes)
    check_image_size(image_size)
    network = deepcopy(backbone)  # the caller's network stays unchanged
    head = head or last_linear(network)
    classifier = find_layer(network, head)
    if not isinstance(classifier, nn.Linear):
        raise AibError(f"the head {head!r} must be a Linear layer, not {type(classifier).__name__}")
    parent, _, leaf = head.rpartition(".")
    setattr(find_layer(network, parent), leaf, nn.Identity())

    layer = find_layer(network, at)
    channels = _probe(deepcopy(network), at, head, image_size)
    trunk: nn.Module = nn.Conv2d(channels, 1, 3, padding=1)
    if chosen.attention_guide:
        trunk = guided(maps_of_classes(channels, num_classes), num_classes)
    sigma_kernel = get_profile(chosen.profile).sigma_kernel
    decoder = mlp_decoder(latent_dim, num_classes)
    model = AttachedAIB(
        network,
        layer,
        num_classes=num_classes,
        attention=SpatialAttention(trunk, sigma_kernel, chosen.attention_noise),
        quantizer=quantizer,
        head=VariationalHead(classifier.in_features, latent_dim, decoder),
        modulation=chosen.modulation,
        profile=chosen.profile,
        preprocessing=preprocessing or Preprocessing(image_size=image_size),
    )
    resolved = replace(chosen, latent_dim=latent_dim, modulation=model.modulation)
    model.recipe = {
        "kind": "attached",
        "at": at,
        "num_classes": num_classes,
        "quantizer": quantizer,
        "head": head,
        "image_size": image_size,
        **{name: getattr(resolved, name) for name in OPTIONS},
    }
    return model.to(next(network.parameters(), torch.empty(0)))  # its device and dtype


class AttachedAIB(AIB):
    """An AIB whose stem and tail are one network; a hook on `layer` inserts the attention."""

    def __init__(self, network: nn.Module, layer: nn.Module, **parts: Any):
        super().__init__(nn.Identity(), network, **parts)
        self._pass: dict[str, Any] = {}  # the hook's arguments and results
        layer.register_forward_hook(self._attend_hook)

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        self._pass["arguments"] = sampling, given.attention_map
        e = self.tail(x)  # [S*B,d]: x to f, then _attend_hook, then the rest of the network
        attention, aux_logits = self._pass.pop("results")
        samples = (e.shape[0] // x.shape[0], sampling.m)
        latent, logits = self.head(e, samples, sampling.deterministic, sampling.noise.z)
        return Output(logits, attention, latent, aux_logits, self.profile)

    def _attend_hook(self, layer: nn.Module, inputs: Any, f: Tensor) -> Tensor:
        """Replace the layer's features by S modulated copies."""
        f, attention, aux_logits = self.attend(f, *self._pass.pop("arguments"))
        self._pass["results"] = attention, aux_logits
        return f


def find_layer(network: nn.Module, name: str) -> nn.Module:
    """A layer by its dotted name; the error for an unknown name lists the closest ones."""
    layers = dict(network.named_modules())
    if name in layers:
        return layers[name]
    close = difflib.get_close_matches(name, layers, n=5, cutoff=0.4)
    close = close or [known for known, _ in network.named_children()][:5]
    raise AibError(
        f"{type(network).__name__} has no layer {name!r}; close to it: {', '.join(close)}"
    )


def last_linear(network: nn.Module) -> str:
    """Name of the last Linear layer: in a classifier, the one that computes the logits."""
    names = [name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not names:
        raise AibError(
            f"{type(network).__name__} has no Linear layer to replace; wrap the network so that it "
            "ends in one"
        )
    return names[-1]


@torch.no_grad()
def _probe(network: nn.Module, at: str, head: str, image_size: int) -> int:
    """Channels of the features at the layer `at`, from blank images.

    `network` has an Identity in place of its head, and is a copy made for this: a pass in training
    mode changes the statistics of its normalisation layers.
    """
    weight = next(network.parameters(), torch.empty(0))
    x = torch.zeros(2, 3, image_size, image_size, device=weight.device, dtype=weight.dtype)
    network.eval()
    f = _pass(network, at, head, x)
    if _channels_are_last(network, at, f, x):
        raise AibError(
            f"the layer {at!r} gives channels last, {describe(f)} for 2 images of {image_size} x "
            f"{image_size}, and attach needs [B, c, h, w]: choose a layer after the network "
            "has moved its channels to axis 1, such as 'permute' in torchvision's Swin"
        )
    network.train()
    for layer in network.modules():
        if isinstance(layer, nn.SyncBatchNorm):  # on a CPU it can only be evaluated
            layer.eval()
    cuda = [weight.device] if weight.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):  # dropout samples
        _pass(network, at, head, x)
    return f.shape[1]


def _pass(network: nn.Module, at: str, head: str, x: Tensor) -> Tensor:
    """The features at the layer `at`, from a pass through the whole network.

    The layer's output is repeated, as for two attention samples: a network that cannot process a
    larger batch from there on fails now and not in training.
    """
    features: list[Any] = []
    embeddings: list[Any] = []

    def repeat(_layer: nn.Module, _inputs: Any, f: Any) -> Any:
        features.append(f)
        if len(features) > 1:
            raise AibError(
                f"the layer {at!r} runs more than once in a forward pass; choose one that runs once"
            )
        if not isinstance(f, Tensor) or f.dim() != 4 or len(f) != 2:
            raise AibError(
                f"the layer {at!r} must give features [B, c, h, w]; for a batch of 2 it gives "
                f"{describe(f)}"
            )
        return f.repeat(2, 1, 1, 1)

    def record(_layer: nn.Module, _inputs: Any, e: Any) -> None:
        embeddings.append(e)

    layer, end = find_layer(network, at), find_layer(network, head)
    hooks = layer.register_forward_hook(repeat), end.register_forward_hook(record)
    try:
        e = network(x)
    except RuntimeError as error:
        raise AibError(
            f"a {x.shape[2]} x {x.shape[3]} image does not pass from {at!r} to the end "
            f"({str(error).splitlines()[0]}); if {at!r} sits inside a skip connection, choose the "
            "end of its block, and give the network's own image_size"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    if not features:
        raise AibError(f"the layer {at!r} does not run in a forward pass")
    if network.training and not isinstance(e, Tensor):
        raise AibError(
            f"in training mode {type(network).__name__} gives {describe(e)} and not one tensor: "
            "make it without auxiliary heads (aux_logits=False in torchvision), or wrap it so that "
            "it gives its main output only"
        )
    if not isinstance(e, Tensor) or e.dim() != 2 or len(e) != 4:
        raise AibError(
            f"with its head {head!r} removed the network must give [4, d] for 2 images and 2 "
            f"samples, not {describe(e)}"
        )
    if len(embeddings) != 1 or not torch.equal(e, embeddings[0]):
        raise AibError(
            f"the network must end in its head {head!r}, and something comes after it; name the "
            "last Linear layer with head=, or remove what follows it"
        )
    return features[0]


def _channels_are_last(network: nn.Module, at: str, f: Tensor, x: Tensor) -> bool:
    """Whether the features f of the square images x are [B,h,w,c].

    Height and width grow with the image, channels do not. Where a network takes one image size
    only, or pools to one size, [B,n,n,c] with c unlike n counts as channels last.
    """
    grown: list[Any] = []
    hook = find_layer(network, at).register_forward_hook(lambda _, __, g: grown.append(g))
    try:
        network(x[:1].repeat(1, 1, 2, 2))
    except Exception:  # the network may not take this size; the hook may have run before
        pass
    finally:
        hook.remove()
    shape = list(grown[0].shape) if grown and isinstance(grown[0], Tensor) else []
    if len(shape) == 4 and shape[1:] != list(f.shape[1:]):
        return [a != b for a, b in zip(shape[1:], f.shape[1:], strict=True)] == [True, True, False]
    return f.shape[1] == f.shape[2] != f.shape[3]
