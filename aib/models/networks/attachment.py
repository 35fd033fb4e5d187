"""Add attention with an information bottleneck to any network, at one of its layers."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from aib.config.network_options import OPTIONS, check_evaluator_options, check_options
from aib.config.options import ModelOptions
from aib.config.profiles import get_modulation, get_profile
from aib.config.validation import Layout, NumAnchors, check
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.models.attention import SpatialAttention
from aib.models.backbones.propose import FeatureProposal, FirstPass, hold_in_backward
from aib.models.baselines.evaluator import Evaluator
from aib.models.bottleneck import AIB
from aib.models.classifier import Classifier, check_classes
from aib.models.latent import make_head, mlp_decoder
from aib.models.masked import Masked
from aib.models.networks.by_name import preprocessing_of, resolve_layer
from aib.models.networks.layers import find_layer, last_linear, name_from_start
from aib.models.networks.site import Site, choose_size, copy_network, find_site, resolve_network
from aib.models.quantize import AnchorQuantizer
from aib.models.types import Given, Output, Sampling, split_heads

LATENT_DIM = 256


def attach(
    backbone: nn.Module | str,
    at: str | None = None,
    num_classes: int = 0,  # has to be given; `at` may be left out
    *,
    masked: bool = False,
    evaluator: bool = False,
    pretrained: bool = False,
    download: bool = True,
    quantizer: int | None = None,
    head: str | None = None,
    image_size: int | None = None,
    layout: Layout | None = None,
    prefix_tokens: int | None = None,
    grid: tuple[int, int] | None = None,
    preprocessing: Preprocessing | None = None,
    **options: Any,
) -> Classifier:
    """A copy of `backbone` with attention and an information bottleneck at its layer `at`.

    `backbone` is a network or a name: "timm:resnet50", "torchvision:resnet50", or "my_module:build"
    for a function of your own. A library's network has a default layer, image size and
    normalisation (docs/networks.md), its weights if `pretrained`, and `from_pretrained` finds it
    again by its name. Without `download` it only has the form that goes with these weights. For
    other networks `at` has to be given, and `image_size` is 224 by default.

    Everything after `at` runs once per attention sample. The network's last Linear layer (or the
    one named `head`) is replaced by the bottleneck: latent, decoder, `num_classes` logits. The
    layer's output must be [B,c,h,w], without a skip connection around it: attach to the end of a
    block, such as "layer2" of a ResNet, not to a layer inside one. Features with channels last,
    [B,h,w,c], are an error, except where they cannot be told from channels first: c = h = w in a
    network that takes one image size only.

    With `masked=True` the layer's features, of a first pass of the network, give a mask for the
    pixels, and a second pass classifies the masked images (`models/masked.py`). Transformers work
    too: `layout` says how the features lie ("nchw", "nhwc", or "tokens": `prefix_tokens` and then
    a `grid` of h x w), and is needed only where more than one reading fits. The last Linear layer
    becomes BatchNorm1d and a linear layer; `latent_dim` adds the bottleneck. With
    `evaluator=True` as well this second pass is all there is, under random masks: the classifier
    that judges maps (`aib/models/baselines/evaluator.py`).

    Auxiliary heads that run in training (GoogLeNet, Inception v3) get `num_classes` as well, and a
    part in the loss (`Output.aux_heads`).

    `quantizer` is the number of anchors. The other options are those of `create_model`: latent_dim
    (256 unless given), modulation and profile; with
    `masked=True` latent_dim, area, noise_std, stretch, sample_map and profile.
    """
    check("pretrained", pretrained, bool)
    check_classes(num_classes)
    check("at", at, str | None)
    check("head", head, str | None)
    name, own = backbone if isinstance(backbone, str) else None, None
    given = resolve_network(backbone, pretrained, download, num_classes)
    if name is not None:
        own, at = preprocessing_of(name, given), resolve_layer(name, at)
    if at is None:
        raise AibError("name the layer of the network with at=, such as at='layer3'")
    image_size = choose_size(image_size, preprocessing, own)
    reading: dict[str, Any] = {"layout": layout, "prefix_tokens": prefix_tokens, "grid": grid}
    check_options(masked, [*options, *(name for name, v in reading.items() if v is not None)])
    chosen = ModelOptions(**options)
    check("quantizer", quantizer, NumAnchors | None)
    check("evaluator", evaluator, bool)
    if evaluator:
        check_evaluator_options(masked, quantizer, chosen)
    network = copy_network(given)
    at, head = name_from_start(network, at), head or last_linear(network)
    site = find_site(network, at, head, image_size, num_classes, reading if masked else None)
    parts: dict[str, Any] = {
        "num_classes": num_classes,
        "profile": chosen.profile,
        "preprocessing": preprocessing or replace(own or Preprocessing(), image_size=image_size),
    }
    anchors = None if quantizer is None else AnchorQuantizer(quantizer)
    model: Classifier
    if masked:
        model = _masked_model(site, chosen, anchors, evaluator, parts)
    else:
        modulation = get_modulation(chosen.modulation, chosen.profile)
        latent_dim = chosen.latent_dim or LATENT_DIM
        chosen = replace(chosen, latent_dim=latent_dim, modulation=modulation)
        model = _attached_model(site, chosen, anchors, parts)
    model.recipe = {
        "kind": "attached",
        "at": at,
        "num_classes": num_classes,
        "quantizer": quantizer,
        "head": head,
        "image_size": image_size,
        **({"masked": True, **site.to_grid.arguments()} if masked else {}),
        **({"evaluator": True} if evaluator else {}),
        **{name: getattr(chosen, name) for name in OPTIONS[masked]},
    }
    if name is not None:
        model.recipe |= {"backbone": name, "pretrained": pretrained}
    model.to(next(network.parameters(), torch.empty(0)))  # its device and dtype
    if pretrained:
        model.pretrained_names = _unchanged_names(model, given)
        model.pretrained_statistics = None if own is None else (own.mean, own.std)
    return model


def _masked_model(
    site: Site,
    chosen: ModelOptions,
    anchors: AnchorQuantizer | None,
    evaluator: bool,
    parts: dict[str, Any],
) -> Classifier:
    """The network behind a mask that its own first pass proposes, or the evaluator of one."""
    network, classes = site.network, parts["num_classes"]
    parts = parts | {"noise_std": chosen.noise_std or 1.0}
    head = make_head(site.embedding_dim, classes, chosen.latent_dim, mlp_decoder, norm=True)
    if evaluator:
        return Evaluator(network, head, **parts)
    hold_in_backward(network)
    sigma_kernel = get_profile(chosen.profile).sigma_kernel if chosen.sample_map else None
    trunk = nn.Sequential(site.to_grid, FeatureProposal(site.channels))
    return Masked(
        network,
        head,
        SpatialAttention(trunk, sigma_kernel),
        first_pass=FirstPass(network, site.at),
        body_names={"tail": "body"},  # of the same network without a mask
        stretch=chosen.stretch,
        quantizer=anchors,
        **parts,
    )


def _attached_model(
    site: Site, chosen: ModelOptions, anchors: AnchorQuantizer | None, parts: dict[str, Any]
) -> Classifier:
    """The network with attention on the features of its layer."""
    classes = parts["num_classes"]
    trunk = nn.Conv2d(site.channels, 1, 3, padding=1)
    return AttachedAIB(
        site.network,
        find_layer(site.network, site.at),
        attention=SpatialAttention(trunk, get_profile(chosen.profile).sigma_kernel),
        head=make_head(site.embedding_dim, classes, chosen.latent_dim, mlp_decoder),
        modulation=chosen.modulation,
        quantizer=anchors,
        **parts,
    )


class AttachedAIB(AIB):
    """An AIB whose stem and tail are one network; a hook on `layer` inserts the attention."""

    def __init__(self, network: nn.Module, layer: nn.Module, **parts: Any):
        super().__init__(nn.Identity(), network, **parts)
        self._pass: dict[str, Any] = {}  # the hook's arguments and results
        layer.register_forward_hook(self._attend_hook)

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        self._pass["arguments"] = sampling, given.attention_map
        # x to f, then _attend_hook, then the rest of the network
        e, heads = split_heads(self.tail(x))  # [S*B,d]
        attention, aux_logits = self._pass.pop("results")
        samples = (e.shape[0] // x.shape[0], sampling.m)
        latent, logits = self.head(e, samples, sampling.deterministic, sampling.noise.z)
        return Output(logits, attention, latent, aux_logits, aux_heads=heads)

    def _attend_hook(self, layer: nn.Module, inputs: Any, f: Tensor) -> Tensor:
        """Replace the layer's features by S modulated copies."""
        if "arguments" not in self._pass:
            raise AibError(
                "the layer that attention is attached to ran again outside of the forward pass: "
                "turn off gradient checkpointing of this part of the network"
            )
        f, attention, aux_logits = self.attend(f, *self._pass.pop("arguments"))
        self._pass["results"] = attention, aux_logits
        return f


def _unchanged_names(model: Classifier, before: nn.Module) -> frozenset[str]:
    """Parameters that the model has from this network: all but new layers, such as the last ones
    of auxiliary heads."""
    known = dict(before.named_parameters())
    inside = "body" if model.takes_mask else "tail"
    layers = model.get_submodule(inside).named_parameters()
    return frozenset(f"{inside}.{n}" for n, p in layers if n in known and torch.equal(p, known[n]))
