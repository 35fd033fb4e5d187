"""Add attention with an information bottleneck to any network, at one of its layers."""

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from aib.config.options import ModelOptions
from aib.config.profiles import get_modulation, get_profile
from aib.config.validation import Count, NumAnchors, check, reject_unknown
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.models.attention import SpatialAttention
from aib.models.backbones.propose import FeatureProposal, FirstPass, hold_in_backward
from aib.models.baselines.evaluator import Evaluator
from aib.models.bottleneck import AIB
from aib.models.classifier import Classifier, check_classes
from aib.models.latent import make_head, mlp_decoder
from aib.models.masked import Masked
from aib.models.networks.by_name import build_network, preprocessing_of, resolve_layer
from aib.models.networks.layers import find_layer, last_linear, name_from_start
from aib.models.networks.site import Site, copy_network, find_site
from aib.models.quantize import AnchorQuantizer
from aib.models.types import Given, Output, Sampling

LATENT_DIM = 256
Form = Literal["modulated", "masked", "evaluator"]
OPTIONS: dict[Form, tuple[str, ...]] = {  # those of `create_model` that apply to any network
    "modulated": ("latent_dim", "modulation", "profile"),
    "masked": ("latent_dim", "area", "noise_std", "stretch", "sample_map", "profile"),
    "evaluator": ("latent_dim", "noise_std", "profile"),
}


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
    block, such as "layer2" of a ResNet, not to a layer inside one.

    With `masked=True` the layer's features, of a first pass of the network, give a mask for the
    pixels, and a second pass classifies the masked images (`models/masked.py`). Transformers work
    too: features may also be [B,h,w,c], or tokens of a square grid. The last Linear layer becomes
    BatchNorm1d and a linear layer; `latent_dim` adds the bottleneck. With `evaluator=True` this
    second pass is all there is, under random masks: the classifier that judges maps
    (`aib/models/baselines/evaluator.py`).

    `quantizer` is the number of anchors. The other options are those of `create_model`: latent_dim
    (256 unless given), modulation and profile; with `masked=True` latent_dim, area, noise_std,
    stretch, sample_map and profile.
    """
    check_classes(num_classes)
    flags = {"masked": masked, "evaluator": evaluator, "pretrained": pretrained}
    for name, flag in flags.items():
        check(name, flag, bool)
    check("at", at, str | None)
    check("head", head, str | None)
    check("quantizer", quantizer, NumAnchors | None)
    form = form_of(masked, evaluator)
    _check_options("attach", form, [*options, *(["quantizer"] if quantizer else [])])
    chosen = ModelOptions(**options)

    backbone_name = backbone if isinstance(backbone, str) else None
    given, at, own = _resolve(backbone, at, num_classes, pretrained, download)
    image_size = image_size or (preprocessing or own or Preprocessing(224)).image_size
    check("image_size", image_size, Count)
    network = copy_network(given)
    at, head = name_from_start(network, at), head or last_linear(network)
    site = find_site(network, at, head, image_size, masked=form != "modulated")
    if form == "modulated":
        modulation = get_modulation(chosen.modulation, chosen.profile)
        latent_dim = chosen.latent_dim or LATENT_DIM
        chosen = replace(chosen, latent_dim=latent_dim, modulation=modulation)
    model = _build(form, site, chosen, quantizer, num_classes)
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
    if backbone_name is not None:
        model.recipe |= {"backbone": backbone_name, "pretrained": pretrained}
    model.to(next(network.parameters(), torch.empty(0)))  # its device and dtype
    if pretrained:
        model.pretrained_names = _unchanged_names(model, given)
        model.pretrained_statistics = None if own is None else (own.mean, own.std)
    return model


def form_of(masked: bool, evaluator: bool) -> Form:
    """The form of an attached network."""
    return "evaluator" if evaluator else "masked" if masked else "modulated"


def attach_options(name: str, form: Form, options: ModelOptions) -> dict[str, Any]:
    """The arguments of `attach` among the options; one of another form is an error."""
    changed = options.changed()
    if "num_anchors" in changed:
        changed["quantizer"] = changed.pop("num_anchors")
    _check_options(name, form, list(changed))
    return changed


def _check_options(name: str, form: Form, given: list[str]) -> None:
    known = {one: form for form, options in OPTIONS.items() for one in options}
    reject_unknown(given, [*known, "quantizer"], f"{name} has no option")
    for option in given:
        if option not in (*OPTIONS[form], *(["quantizer"] if form != "evaluator" else [])):
            raise AibError(f"{option} does not apply to this form of network: it is {form}")


def _resolve(
    backbone: nn.Module | str, at: str | None, num_classes: int, pretrained: bool, download: bool
) -> tuple[nn.Module, str, Preprocessing | None]:
    """The network given or of this name, its layer, and its own preprocessing if that is known."""
    if isinstance(backbone, str):
        network = build_network(
            backbone, pretrained=pretrained, download=download, num_classes=num_classes
        )
        return network, resolve_layer(backbone, at), preprocessing_of(backbone, network)
    if not isinstance(backbone, nn.Module):
        raise AibError(f"backbone must be a network (nn.Module) or its name, not {backbone!r}")
    if pretrained:
        raise AibError("pretrained is for networks by name; give your network its weights itself")
    if at is None:
        raise AibError("name the layer of the network with at=, such as at='layer3'")
    return backbone, at, None


def _build(
    form: Form, site: Site, chosen: ModelOptions, quantizer: int | None, num_classes: int
) -> Classifier:
    """The model of this form around the network of the site."""
    norm = form != "modulated"
    head = make_head(site.embedding_dim, num_classes, chosen.latent_dim, mlp_decoder, norm=norm)
    anchors = None if quantizer is None else AnchorQuantizer(quantizer)
    sigma_kernel = get_profile(chosen.profile).sigma_kernel
    parts: dict[str, Any] = {"num_classes": num_classes, "profile": chosen.profile}
    if form == "evaluator":
        return Evaluator(site.network, head, noise_std=chosen.noise_std or 1.0, **parts)
    if form == "modulated":
        return AttachedAIB(
            site.network,
            find_layer(site.network, site.at),
            attention=SpatialAttention(nn.Conv2d(site.channels, 1, 3, padding=1), sigma_kernel),
            head=head,
            modulation=chosen.modulation,
            quantizer=anchors,
            **parts,
        )
    trunk, first_pass = _proposal(site)
    return Masked(
        site.network,
        head,
        SpatialAttention(trunk, sigma_kernel if chosen.sample_map else None),
        first_pass=first_pass,
        noise_std=chosen.noise_std or 1.0,
        stretch=chosen.stretch,
        quantizer=anchors,
        **parts,
    )


def _proposal(site: Site) -> tuple[nn.Module, FirstPass]:
    """propose="twice": scores from the layer's features in a first pass of the same network."""
    hold_in_backward(site.network)
    trunk = nn.Sequential(site.to_grid, FeatureProposal(site.channels))
    return trunk, FirstPass(site.network, site.at)


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
            raise AibError(
                "the layer that attention is attached to ran again outside of the forward pass: "
                "turn off gradient checkpointing of this part of the network"
            )
        f, attention, aux_logits = self.attend(f, *self._pass.pop("arguments"))
        self._pass["results"] = attention, aux_logits
        return f


def _unchanged_names(model: Classifier, before: nn.Module) -> frozenset[str]:
    """Parameters that the model has from this network."""
    inside = "body" if model.takes_mask else "tail"
    kept = {name for name, _ in model.get_submodule(inside).named_parameters()}
    return frozenset(f"{inside}.{name}" for name, _ in before.named_parameters() if name in kept)
