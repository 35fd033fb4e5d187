"""Give a whole CNN, named by one of its layers, attention with an information bottleneck."""

import difflib
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from aib.attention import SpatialAttention, check_attention
from aib.backbones.parts import guided, maps_of_classes
from aib.bottleneck import AIB
from aib.classifier import check_classes
from aib.compose import describe
from aib.errors import AibError
from aib.latent import VariationalHead, mlp_decoder
from aib.preprocessing import Preprocessing, check_image_size
from aib.profiles import Modulation, get_profile
from aib.types import Given, Output, ProfileName, Sampling


def attach(
    backbone: nn.Module,
    at: str,
    num_classes: int,
    *,
    quantizer: int | None = None,
    head: str | None = None,
    image_size: int = 224,
    latent_dim: int = 256,
    modulation: Modulation | None = None,
    attention_noise: float = 0.0,
    attention_guide: bool = False,
    profile: ProfileName = "paper",
    preprocessing: Preprocessing | None = None,
) -> "AttachedAIB":
    """A copy of `backbone` that attends to the output of its layer `at`.

    Everything after `at` runs once per attention sample. The network's last Linear layer (or the
    one named `head`) gives way to the bottleneck: latent, decoder, `num_classes` logits. The
    layer must give [B,c,h,w] and must not have a skip connection around it: attach to the end of
    a block, such as "layer2" of a ResNet, not to a layer inside one. Features with channels last,
    [B,h,w,c], are refused, except where nothing tells them from channels first: c = h = w in a
    network that takes one image size only. `attention_noise` and `attention_guide` are those of
    `create_model`.
    """
    check_classes(num_classes)
    check_attention(attention_noise, attention_guide)
    check_image_size(image_size)
    network = deepcopy(backbone)  # the caller's network stays as it was, and can be used again
    head = head or last_linear(network)
    classifier = find_layer(network, head)
    if not isinstance(classifier, nn.Linear):
        raise AibError(f"the head {head!r} must be a Linear layer, not {type(classifier).__name__}")
    parent, _, leaf = head.rpartition(".")
    setattr(find_layer(network, parent), leaf, nn.Identity())

    layer = find_layer(network, at)
    channels = _probe(deepcopy(network), at, head, image_size)
    trunk: nn.Module = nn.Conv2d(channels, 1, 3, padding=1)
    if attention_guide:
        trunk = guided(maps_of_classes(channels, num_classes), num_classes)
    attention = SpatialAttention(trunk, get_profile(profile).sigma_kernel, attention_noise)
    decoder = mlp_decoder(latent_dim, num_classes)
    model = AttachedAIB(
        network,
        layer,
        num_classes=num_classes,
        attention=attention,
        quantizer=quantizer,
        head=VariationalHead(classifier.in_features, latent_dim, decoder),
        modulation=modulation,
        profile=profile,
        preprocessing=preprocessing or Preprocessing(image_size=image_size),
    )
    model.recipe = {
        "kind": "attached",
        "at": at,
        "num_classes": num_classes,
        "quantizer": quantizer,
        "head": head,
        "image_size": image_size,
        "latent_dim": latent_dim,
        "modulation": model.modulation,
        "attention_noise": attention_noise,
        "attention_guide": attention_guide,
        "profile": profile,
    }
    return model.to(next(network.parameters(), torch.empty(0)))  # its device and its type


class AttachedAIB(AIB):
    """An AIB whose stem and tail are one network, met half-way by a hook on `layer`."""

    def __init__(self, network: nn.Module, layer: nn.Module, **parts: Any):
        super().__init__(nn.Identity(), network, **parts)
        self._pass: dict[str, Any] = {}  # what the hook needs to know, and what it found
        layer.register_forward_hook(self._meet)

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        self._pass["request"] = sampling, given.attention_map
        e = self.tail(x)  # [S*B,d]: x to f, then _meet, then the rest of the network
        attention, aux_logits = self._pass.pop("found")
        samples = (e.shape[0] // x.shape[0], sampling.m)
        latent, logits = self.head(e, samples, sampling.deterministic, sampling.noise.z)
        return Output(logits, attention, latent, aux_logits, self.profile)

    def _meet(self, layer: nn.Module, inputs: Any, f: Tensor) -> Tensor:
        """Replace the layer's features by S modulated copies."""
        f, attention, aux_logits = self.attend(f, *self._pass.pop("request"))
        self._pass["found"] = attention, aux_logits
        return f


def find_layer(network: nn.Module, name: str) -> nn.Module:
    """A layer by its dotted name; an unknown name is answered with the closest ones."""
    layers = dict(network.named_modules())
    if name in layers:
        return layers[name]
    close = difflib.get_close_matches(name, layers, n=5, cutoff=0.4)
    close = close or [known for known, _ in network.named_children()][:5]
    raise AibError(
        f"{type(network).__name__} has no layer {name!r}; close to it: {', '.join(close)}"
    )


def last_linear(network: nn.Module) -> str:
    """The name of the last Linear layer: in a classifier, the one that gives the logits."""
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

    `network` has an Identity in place of its head, and is a copy for this only: a pass in training
    mode changes the statistics of its normalisation.
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
    with torch.random.fork_rng(devices=cuda):  # dropout draws
        _pass(network, at, head, x)
    return f.shape[1]


def _pass(network: nn.Module, at: str, head: str, x: Tensor) -> Tensor:
    """The features at the layer `at`, from a pass through the whole network.

    The layer's output is repeated on the way, as two attention samples would: a network that
    cannot carry a grown batch from there to its end is found out now and not in training.
    """
    seen: list[Any] = []
    embeddings: list[Any] = []

    def repeat(_layer: nn.Module, _inputs: Any, f: Any) -> Any:
        seen.append(f)
        if len(seen) > 1:
            raise AibError(
                f"the layer {at!r} runs more than once in a forward pass; choose one that runs once"
            )
        if not isinstance(f, Tensor) or f.dim() != 4 or len(f) != 2:
            raise AibError(
                f"the layer {at!r} must give features [B, c, h, w]; for a batch of 2 it gives "
                f"{describe(f)}"
            )
        return f.repeat(2, 1, 1, 1)

    def keep(_layer: nn.Module, _inputs: Any, e: Any) -> None:
        embeddings.append(e)

    layer, end = find_layer(network, at), find_layer(network, head)
    hooks = layer.register_forward_hook(repeat), end.register_forward_hook(keep)
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
    if not seen:
        raise AibError(f"the layer {at!r} does not run in a forward pass")
    if network.training and not isinstance(e, Tensor):
        raise AibError(
            f"in training mode {type(network).__name__} gives {describe(e)} and not one tensor: "
            "make it without auxiliary heads (aux_logits=False in torchvision), or wrap it so that "
            "it gives its main output only"
        )
    if not isinstance(e, Tensor) or e.dim() != 2 or len(e) != 4:
        raise AibError(
            f"with its head {head!r} taken out the network must give [4, d] for 2 images and 2 "
            f"samples, not {describe(e)}"
        )
    if len(embeddings) != 1 or not torch.equal(e, embeddings[0]):
        raise AibError(
            f"the network must end in its head {head!r}, and something comes after it; name the "
            "last Linear layer with head=, or take what follows it away"
        )
    return seen[0]


def _channels_are_last(network: nn.Module, at: str, f: Tensor, x: Tensor) -> bool:
    """Are the features f, of the square images x, [B,h,w,c]?

    Height and width grow with the image and channels do not. Where a network takes one image size
    only, or pools to one size, h = w decides: [B,n,n,c] with c unlike n has its channels last.
    """
    grown: list[Any] = []
    hook = find_layer(network, at).register_forward_hook(lambda _, __, g: grown.append(g))
    try:
        network(x[:1].repeat(1, 1, 2, 2))
    except Exception:  # a network may refuse the size with any; what counts is how far it came
        pass
    finally:
        hook.remove()
    shape = list(grown[0].shape) if grown and isinstance(grown[0], Tensor) else []
    if len(shape) == 4 and shape[1:] != list(f.shape[1:]):
        return [a != b for a, b in zip(shape[1:], f.shape[1:], strict=True)] == [True, True, False]
    return f.shape[1] == f.shape[2] != f.shape[3]
