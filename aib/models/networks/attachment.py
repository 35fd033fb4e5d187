"""Add attention with an information bottleneck to any network, at one of its layers."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from aib.config.options import ModelOptions, Propose
from aib.config.profiles import get_modulation, get_profile
from aib.config.validation import Count, NumAnchors, check, reject_unknown
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.models.attention import SpatialAttention
from aib.models.backbones.propose import CopyProposal, FeatureProposal, FirstPass
from aib.models.baselines.evaluator import Evaluator
from aib.models.bottleneck import AIB
from aib.models.classifier import Classifier, check_classes
from aib.models.latent import LinearHead, make_head, mlp_decoder
from aib.models.masked import Masked
from aib.models.networks.by_name import build_network, load_network, preprocessing_of
from aib.models.networks.cut import cut_stages
from aib.models.networks.layers import default_layer, find_layer, last_linear, name_from_start
from aib.models.networks.site import Site, find_site
from aib.models.quantize import AnchorQuantizer
from aib.models.types import Given, Output, Sampling

LATENT_DIM = 256
Form = Literal["modulated", "masked", "evaluator"]
OPTIONS: dict[Form, tuple[str, ...]] = {  # those of `create_model` that apply to any network
    "modulated": ("latent_dim", "modulation", "profile"),
    "masked": ("latent_dim", "area", "noise_std", "propose", "map_stride", "profile"),
    "evaluator": ("latent_dim", "noise_std", "profile"),
}


def attach(
    backbone: nn.Module | str,
    at: str | None = None,
    num_classes: int = 0,  # has to be given; `at` may be left out
    *,
    masked: bool = False,
    evaluator: bool = False,
    pretrained: bool | str | Path = False,
    download: bool = True,
    quantizer: int | None = None,
    head: str | None = None,
    image_size: int | None = None,
    preprocessing: Preprocessing | None = None,
    **options: Any,
) -> Classifier:
    """A copy of `backbone` with attention and an information bottleneck at its layer `at`.

    `backbone` is a network or a name: "timm:resnet50", "torchvision:resnet50" or "my_module:build".
    A library's network has a default layer, image size and normalisation (docs/networks.md), and
    its weights if `pretrained`; without `download` only the form that goes with them. `pretrained`
    may also be a file of weights by the network's own names (.safetensors or .pth).

    Everything after `at` runs once per attention sample. The last Linear layer, or `head`, is
    replaced by the bottleneck. The layer's output must be [B,c,h,w], without a skip connection
    around it: attach to the end of a block, such as "layer2" of a ResNet.

    With `masked=True` the network classifies masked images (`models/masked.py`). Their masks come
    from a copy of the network up to `at` (propose="copy"), on a grid twice as fine as that layer's;
    or, where it cannot be cut there, from the layer's features in a first pass ("twice"), which may
    also be [B,h,w,c], or tokens of a square grid. With as many classes as before, the head keeps
    its weights. `evaluator=True` is the same network under random masks.

    `quantizer` is the number of anchors, without `masked`. The other options (`OPTIONS`) are those
    of `create_model`.
    """
    check_classes(num_classes)
    check("at", at, str | None)
    check("head", head, str | None)
    check("quantizer", quantizer, NumAnchors | None)
    form: Form = "evaluator" if evaluator else "masked" if masked else "modulated"
    allowed = OPTIONS[form] + (("quantizer",) if form == "modulated" else ())
    names = [*options, "quantizer"] if quantizer else options
    reject_unknown(names, allowed, f"an attached network ({form}) has no option")
    chosen = ModelOptions(**options)

    original, at, own = _resolve(backbone, at, num_classes, pretrained, download)
    image_size = image_size or (preprocessing or own or Preprocessing(224)).image_size
    check("image_size", image_size, Count)
    network = deepcopy(original)
    at, head = name_from_start(network, at), head or last_linear(network)
    site = find_site(network, at, head, image_size, masked=form != "modulated")
    if form == "modulated":
        modulation = get_modulation(chosen.modulation, chosen.profile)
        latent_dim = chosen.latent_dim or LATENT_DIM
        chosen = replace(chosen, latent_dim=latent_dim, modulation=modulation)
    chosen = replace(chosen, noise_std=chosen.noise_std or 1.0)
    copied = None
    if form == "masked":
        copied = _copied(site, chosen, image_size)
        propose: Propose = "copy" if copied else "twice"
        chosen = replace(chosen, propose=propose)
    model = _build(form, site, chosen, quantizer, num_classes, copied)
    policy = preprocessing or own or Preprocessing()
    model.preprocessing = replace(policy, image_size=image_size)
    model.recipe = {
        "kind": "attached",
        "at": at,
        "num_classes": num_classes,
        "quantizer": quantizer,
        "head": head,
        "image_size": image_size,
        "masked": masked,
        "evaluator": evaluator,
        **{name: getattr(chosen, name) for name in OPTIONS[form]},
    }
    if isinstance(backbone, str):
        model.recipe |= {"backbone": backbone, "pretrained": pretrained is True}
    model.to(next(network.parameters(), torch.empty(0)))  # its device and dtype
    if pretrained:
        model.pretrained_names = _unchanged_names(model, original)
    return model


def attach_options(options: ModelOptions) -> dict[str, Any]:
    """The options that are not at their defaults, as arguments of `attach`."""
    changed = options.changed()
    if "num_anchors" in changed:
        changed["quantizer"] = changed.pop("num_anchors")
    return changed


def _resolve(
    backbone: nn.Module | str,
    at: str | None,
    num_classes: int,
    pretrained: bool | str | Path,
    download: bool,
) -> tuple[nn.Module, str, Preprocessing | None]:
    """The network given or of this name, its layer, and its own preprocessing if that is known."""
    name = backbone if isinstance(backbone, str) else ""
    if pretrained and not name:
        raise AibError("pretrained is for networks by name; give your network its weights itself")
    at = at or default_layer(name)
    if at is None:
        raise AibError(f"{name or 'this network'} has no default layer: name one with at=")
    if isinstance(backbone, nn.Module):
        return backbone, at, None
    fetch = pretrained is True
    network = build_network(name, pretrained=fetch, download=download, num_classes=num_classes)
    if download and not isinstance(pretrained, bool):
        load_network(network, Path(pretrained))
    return network, at, preprocessing_of(name, network)


def _copied(site: Site, chosen: ModelOptions, image_size: int) -> CopyProposal | None:
    """The proposal that runs a copy of the network's stages; None if it is to look twice."""
    if chosen.propose == "separate":
        raise AibError('a network looks twice or copies its stages: propose="twice" or "copy"')
    if chosen.propose == "twice":
        return None
    try:
        stages, *channels = cut_stages(site.network, site.at, image_size)
    except AibError:
        if chosen.propose == "copy":
            raise
        return None
    return CopyProposal(stages, (channels[0], channels[1]), chosen.map_stride)


def _build(
    form: Form,
    site: Site,
    chosen: ModelOptions,
    quantizer: int | None,
    num_classes: int,
    copied: CopyProposal | None,
) -> Classifier:
    """The model of this form around the network of the site."""
    own = site.classifier
    head = make_head(own.in_features, num_classes, chosen.latent_dim, mlp_decoder)
    if isinstance(head, LinearHead) and own.out_features == num_classes and own.bias is not None:
        head.load_state_dict(own.state_dict())
    parts: dict[str, Any] = {"num_classes": num_classes, "profile": chosen.profile}
    if form == "evaluator":
        return Evaluator(site.network, head, noise_std=chosen.noise_std or 1.0, **parts)
    if form == "modulated":
        trunk: nn.Module = nn.Conv2d(site.channels, 1, 3, padding=1)
        return AttachedAIB(
            site.network,
            find_layer(site.network, site.at),
            attention=SpatialAttention(trunk, get_profile(chosen.profile).sigma_kernel),
            head=head,
            modulation=chosen.modulation,
            quantizer=None if quantizer is None else AnchorQuantizer(quantizer),
            **parts,
        )
    trunk = copied or nn.Sequential(site.to_grid, FeatureProposal(site.channels))
    return Masked(
        site.network,
        head,
        SpatialAttention(trunk, None),
        first_pass=None if copied else FirstPass(site.network, site.at),
        noise_std=chosen.noise_std or 1.0,
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
        e = self.tail(x)  # [S*B,d]
        attention, aux_logits = self._pass.pop("results")
        samples = (e.shape[0] // x.shape[0], sampling.m)
        latent, logits = self.head(e, samples, sampling.deterministic, sampling.noise.z)
        return Output(logits, attention, latent, aux_logits)

    def _attend_hook(self, layer: nn.Module, inputs: Any, f: Tensor) -> Tensor:
        """Replace the layer's features by S modulated copies."""
        if "arguments" not in self._pass:
            raise AibError("turn off gradient checkpointing: the layer cannot run twice")
        f, attention, aux_logits = self.attend(f, *self._pass.pop("arguments"))
        self._pass["results"] = attention, aux_logits
        return f


def _unchanged_names(model: Classifier, before: nn.Module) -> frozenset[str]:
    """Parameters that the model has from this network."""
    before_names = {name for name, _ in before.named_parameters()}
    parts = ["body" if model.takes_mask else "tail", "propose.trunk.stages"]
    prefixes = [f"{part}." for part in parts]
    return frozenset(
        name
        for name, _ in model.named_parameters()
        for prefix in prefixes
        if name.startswith(prefix) and name.removeprefix(prefix) in before_names
    )
