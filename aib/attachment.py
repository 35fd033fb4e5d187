"""Add attention with an information bottleneck to any network, at one of its layers."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from aib.attention import SpatialAttention
from aib.backbones.parts import guided, maps_of_classes
from aib.bottleneck import AIB
from aib.classifier import Classifier, check_classes
from aib.errors import AibError
from aib.latent import make_head, mlp_decoder
from aib.layout import Layout, ToGrid, read_layout
from aib.masked import Masked
from aib.options import ModelOptions
from aib.preprocessing import Preprocessing, check_image_size
from aib.probe import find_layer, last_linear, probe_channels, probe_features
from aib.profiles import get_profile
from aib.propose import FeatureProposal, FirstPass
from aib.quantize import AnchorQuantizer, NumAnchors
from aib.types import Given, Output, Sampling
from aib.validation import check, reject_unknown

# The options of `create_model` that apply to any network, without and with masked=True.
OPTIONS = {
    False: ("latent_dim", "modulation", "attention_noise", "attention_guide", "profile"),
    True: ("latent_dim", "area", "noise_std", "sample_map", "profile"),
}
READING = ("layout", "prefix_tokens", "grid")  # of the features, with masked=True
LATENT_DIM = 256


def attach(
    backbone: nn.Module,
    at: str,
    num_classes: int,
    *,
    masked: bool = False,
    quantizer: int | None = None,
    head: str | None = None,
    image_size: int = 224,
    layout: Layout | None = None,
    prefix_tokens: int | None = None,
    grid: tuple[int, int] | None = None,
    preprocessing: Preprocessing | None = None,
    **options: Any,
) -> Classifier:
    """A copy of `backbone` with attention and an information bottleneck at its layer `at`.

    Everything after `at` runs once per attention sample. The network's last Linear layer (or the
    one named `head`) is replaced by the bottleneck: latent, decoder, `num_classes` logits. The
    layer's output must be [B,c,h,w], without a skip connection around it: attach to the end of a
    block, such as "layer2" of a ResNet, not to a layer inside one. Features with channels last,
    [B,h,w,c], are an error, except where they cannot be told from channels first: c = h = w in a
    network that takes one image size only.

    With `masked=True` the layer's features, of a first pass of the network, give a mask for the
    pixels, and a second pass classifies the masked images (`aib/masked.py`). Transformers work
    too: `layout` says how the features lie ("nchw", "nhwc", or "tokens": `prefix_tokens` and then
    a `grid` of h x w), and is needed only where more than one reading fits. The last Linear layer
    becomes BatchNorm1d and a linear layer; `latent_dim` adds the bottleneck.

    `quantizer` is the number of anchors. The other options are those of `create_model`: latent_dim
    (256 unless given), modulation, attention_noise, attention_guide and profile; with
    `masked=True` latent_dim, area, noise_std, sample_map and profile.
    """
    reading = {"layout": layout, "prefix_tokens": prefix_tokens, "grid": grid}
    _check_options(masked, [*options, *(name for name, v in reading.items() if v is not None)])
    chosen = ModelOptions(**options)
    check_classes(num_classes)
    check_image_size(image_size)
    check("quantizer", quantizer, NumAnchors | None)
    network = deepcopy(backbone)  # the caller's network stays unchanged
    head = head or last_linear(network)
    embedding_dim = _remove_head(network, head)
    sigma_kernel = get_profile(chosen.profile).sigma_kernel
    parts: dict[str, Any] = {
        "num_classes": num_classes,
        "quantizer": None if quantizer is None else AnchorQuantizer(quantizer),
        "profile": chosen.profile,
        "preprocessing": preprocessing or Preprocessing(image_size=image_size),
    }
    model: Classifier
    if masked:
        to_grid, channels = _read_features(deepcopy(network), at, head, image_size, reading)
        model = Masked(
            network,
            make_head(embedding_dim, num_classes, chosen.latent_dim, mlp_decoder, norm=True),
            SpatialAttention(
                nn.Sequential(to_grid, FeatureProposal(channels)),
                sigma_kernel if chosen.sample_map else None,
            ),
            first_pass=FirstPass(network, at),
            area=chosen.area,
            noise_std=chosen.noise_std,
            **parts,
        )
        reading = to_grid.arguments()
    else:
        channels = probe_channels(deepcopy(network), at, head, image_size)
        trunk: nn.Module = nn.Conv2d(channels, 1, 3, padding=1)
        if chosen.attention_guide:
            trunk = guided(maps_of_classes(channels, num_classes), num_classes)
        latent_dim = chosen.latent_dim or LATENT_DIM
        model = AttachedAIB(
            network,
            find_layer(network, at),
            attention=SpatialAttention(trunk, sigma_kernel, chosen.attention_noise),
            head=make_head(embedding_dim, num_classes, latent_dim, mlp_decoder),
            modulation=chosen.modulation,
            **parts,
        )
        chosen = replace(chosen, latent_dim=latent_dim, modulation=model.modulation)
    model.recipe = {
        "kind": "attached",
        "at": at,
        "num_classes": num_classes,
        "quantizer": quantizer,
        "head": head,
        "image_size": image_size,
        **({"masked": True, **reading} if masked else {}),
        **{name: getattr(chosen, name) for name in OPTIONS[masked]},
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


def _check_options(masked: bool, given: list[str]) -> None:
    """Raise an error for an unknown option, and for one of the other kind of model."""
    check("masked", masked, bool)
    modulating, masking = OPTIONS[False], (*OPTIONS[True], *READING)
    reject_unknown(given, dict.fromkeys((*modulating, *masking)), "attach has no option")
    for name in given:
        if name not in (masking if masked else modulating):
            kind = "attention that modulates features" if masked else "masked models"
            raise AibError(
                f"{name} is for {kind}: leave it out{'' if masked else ', or add masked=True'}"
            )


def _remove_head(network: nn.Module, head: str) -> int:
    """Replace the Linear layer `head` by an Identity; return the size of its input."""
    classifier = find_layer(network, head)
    if not isinstance(classifier, nn.Linear):
        raise AibError(f"the head {head!r} must be a Linear layer, not {type(classifier).__name__}")
    parent, _, leaf = head.rpartition(".")
    setattr(find_layer(network, parent), leaf, nn.Identity())
    return classifier.in_features


def _read_features(
    network: nn.Module, at: str, head: str, image_size: int, reading: dict[str, Any]
) -> tuple[ToGrid, int]:
    """How the features at the layer `at` become [B,c,h,w], and their c."""
    f, grown = probe_features(network, at, head, image_size)
    try:
        to_grid = read_layout(f.shape, grown, image_size, **reading)
    except AibError as error:
        raise AibError(f"the layer {at!r}: {error}") from error
    _, channels, h, w = to_grid(f).shape
    if h * w == 1:
        raise AibError(
            f"the layer {at!r} gives no grid of features but one position; choose a layer before "
            "the network pools"
        )
    return to_grid, channels
