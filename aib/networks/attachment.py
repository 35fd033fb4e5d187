"""Add attention with an information bottleneck to any network, at one of its layers."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from aib.attention import SpatialAttention
from aib.backbones.compose import describe
from aib.backbones.parts import guided, maps_of_classes
from aib.backbones.propose import FeatureProposal, FirstPass, hold_in_backward
from aib.baselines.evaluator import Evaluator
from aib.bottleneck import AIB
from aib.classifier import Classifier, check_classes
from aib.errors import AibError, first_line
from aib.latent import make_head, mlp_decoder
from aib.masked import Masked
from aib.networks.by_name import build_network, preprocessing_of, resolve_layer
from aib.networks.layers import find_layer, last_linear, name_from_start
from aib.networks.layout import ToGrid, image_readings, read_layout
from aib.networks.options import OPTIONS, check_evaluator_options, check_options
from aib.networks.probe import probe_features
from aib.options import ModelOptions
from aib.preprocessing import Preprocessing
from aib.profiles import get_profile
from aib.quantize import AnchorQuantizer
from aib.types import Given, Output, Sampling, split_heads
from aib.validation import Count, Layout, NumAnchors, check

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
    pixels, and a second pass classifies the masked images (`aib/masked.py`). Transformers work
    too: `layout` says how the features lie ("nchw", "nhwc", or "tokens": `prefix_tokens` and then
    a `grid` of h x w), and is needed only where more than one reading fits. The last Linear layer
    becomes BatchNorm1d and a linear layer; `latent_dim` adds the bottleneck. With
    `evaluator=True` as well this second pass is all there is, under random masks: the classifier
    that judges maps (`aib/baselines/evaluator.py`).

    Auxiliary heads that run in training (GoogLeNet, Inception v3) get `num_classes` as well, and a
    part in the loss (`Output.aux_heads`).

    `quantizer` is the number of anchors. The other options are those of `create_model`: latent_dim
    (256 unless given), modulation, attention_guide and profile; with
    `masked=True` latent_dim, area, noise_std, stretch, sample_map and profile.
    """
    check("pretrained", pretrained, bool)
    check_classes(num_classes)
    check("at", at, str | None)
    check("head", head, str | None)
    name, own = backbone if isinstance(backbone, str) else None, None
    if isinstance(backbone, str):
        backbone = build_network(
            backbone, pretrained=pretrained, download=download, num_classes=num_classes
        )
        own = preprocessing_of(str(name), backbone)
        at = resolve_layer(str(name), at)
    elif not isinstance(backbone, nn.Module):
        raise AibError(f"backbone must be a network (nn.Module) or its name, not {backbone!r}")
    elif pretrained:
        raise AibError("pretrained is for networks by name; give your network its weights itself")
    if at is None:
        raise AibError("name the layer of the network with at=, such as at='layer3'")
    policy = preprocessing or own
    if image_size is None:
        image_size = 224 if policy is None else policy.image_size
    elif preprocessing is not None and preprocessing.image_size != image_size:
        raise AibError(
            f"image_size is {image_size}, and preprocessing says {preprocessing.image_size}: "
            "leave one of them out"
        )
    reading: dict[str, Any] = {"layout": layout, "prefix_tokens": prefix_tokens, "grid": grid}
    check_options(masked, [*options, *(name for name, v in reading.items() if v is not None)])
    chosen = ModelOptions(**options)
    check("image_size", image_size, Count)
    check("quantizer", quantizer, NumAnchors | None)
    check("evaluator", evaluator, bool)
    if evaluator:
        check_evaluator_options(masked, quantizer, chosen)
    network = _copy(backbone)
    at = name_from_start(network, at)
    head = head or last_linear(network)
    embedding_dim = _remove_head(network, head)
    sigma_kernel = get_profile(chosen.profile).sigma_kernel
    parts: dict[str, Any] = {
        "num_classes": num_classes,
        "profile": chosen.profile,
        "preprocessing": preprocessing or replace(own or Preprocessing(), image_size=image_size),
    }
    anchors = None if quantizer is None else AnchorQuantizer(quantizer)
    model: Classifier
    f, grown, auxiliary = probe_features(deepcopy(network), at, head, image_size, not masked)
    for auxiliary_head in auxiliary:  # the last layers of auxiliary heads
        old = find_layer(network, auxiliary_head)
        assert isinstance(old, nn.Linear)
        _replace(network, auxiliary_head, nn.Linear(old.in_features, num_classes).to(old.weight))
    to_grid = _read_grid(f, grown, at, image_size, reading if masked else None)
    channels = to_grid(f).shape[1]
    if masked:
        parts["noise_std"] = chosen.noise_std
        new_head = make_head(embedding_dim, num_classes, chosen.latent_dim, mlp_decoder, norm=True)
        if evaluator:
            model = Evaluator(network, new_head, **parts)
        else:
            hold_in_backward(network)
            model = Masked(
                network,
                new_head,
                SpatialAttention(
                    nn.Sequential(to_grid, FeatureProposal(channels)),
                    sigma_kernel if chosen.sample_map else None,
                ),
                first_pass=FirstPass(network, at),
                body_names={"tail": "body"},  # of the same network without a mask
                area=chosen.area,
                stretch=chosen.stretch,
                quantizer=anchors,
                **parts,
            )
        reading = to_grid.arguments()
    else:
        trunk: nn.Module = nn.Conv2d(channels, 1, 3, padding=1)
        if chosen.attention_guide:
            trunk = guided(maps_of_classes(channels, num_classes), num_classes)
        latent_dim = chosen.latent_dim or LATENT_DIM
        model = AttachedAIB(
            network,
            find_layer(network, at),
            attention=SpatialAttention(trunk, sigma_kernel),
            head=make_head(embedding_dim, num_classes, latent_dim, mlp_decoder),
            modulation=chosen.modulation,
            quantizer=anchors,
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
        **({"evaluator": True} if evaluator else {}),
        **{name: getattr(chosen, name) for name in OPTIONS[masked]},
    }
    if name is not None:
        model.recipe |= {"backbone": name, "pretrained": pretrained}
    model.to(next(network.parameters(), torch.empty(0)))  # its device and dtype
    if pretrained:  # all but new layers, such as the last ones of auxiliary heads
        before = dict(backbone.named_parameters())
        inside = "body" if model.takes_mask else "tail"
        layers = model.get_submodule(inside).named_parameters()
        model.pretrained_names = frozenset(
            f"{inside}.{n}" for n, p in layers if n in before and torch.equal(p, before[n])
        )
        if own is not None:
            model.pretrained_statistics = own.mean, own.std
    return model


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
        return Output(logits, attention, latent, aux_logits, self.profile, aux_heads=heads)

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


def _copy(network: nn.Module) -> nn.Module:
    """A copy that can be changed: the caller's network stays as it is."""
    kind = type(network).__name__
    if isinstance(network, nn.DataParallel | DistributedDataParallel):
        raise AibError(f"{kind} wraps a network: attach to the one inside, its `.module`")
    if hasattr(network, "_orig_mod"):  # torch.compile
        raise AibError("attach to the network before it is compiled, its `._orig_mod`")
    if isinstance(network, torch.jit.ScriptModule):
        raise AibError(
            "TorchScript does not let layers be replaced: attach to the network that was scripted"
        )
    if any(is_lazy(p) for p in network.parameters()):
        raise AibError(f"{kind} has lazy layers: pass a batch through it first, which creates them")
    if any(p.is_meta for p in network.parameters()):
        raise AibError(f"{kind} has no weights yet: it is on the meta device; load them first")
    try:
        return deepcopy(network)
    except (RuntimeError, TypeError) as error:  # a lock, or a weight that another tensor computes
        raise AibError(
            f"{kind} cannot be copied ({first_line(error)}); of weight_norm and spectral_norm take "
            "those in torch.nn.utils.parametrizations"
        ) from error


def _remove_head(network: nn.Module, head: str) -> int:
    """Replace the Linear layer `head` by an Identity; return the size of its input."""
    classifier = find_layer(network, head)
    if not isinstance(classifier, nn.Linear):
        raise AibError(f"the head {head!r} must be a Linear layer, not {type(classifier).__name__}")
    _replace(network, head, nn.Identity())
    return classifier.in_features


def _read_grid(
    f: Tensor, grown: list[int] | None, at: str, image_size: int, reading: dict[str, Any] | None
) -> ToGrid:
    """How the features at the layer `at` become [B,c,h,w]; without a `reading` they must be it."""
    if reading is None:
        if [one.layout for one in image_readings(f.shape, grown)] == ["nhwc"]:
            raise AibError(
                f"the layer {at!r} gives channels last, {describe(f)} for 2 images of "
                f"{image_size} x {image_size}, and attach needs [B, c, h, w]: choose a layer after "
                "the network has moved its channels to axis 1, such as 'permute' in torchvision's "
                "Swin, or add masked=True, which takes both"
            )
        return ToGrid("nchw")
    try:
        to_grid = read_layout(f.shape, grown, image_size, **reading)
    except AibError as error:
        raise AibError(f"the layer {at!r}: {error}") from error
    if to_grid(f)[0, 0].numel() == 1:
        raise AibError(
            f"the layer {at!r} gives no grid of features but one position; choose a layer before "
            "the network pools"
        )
    return to_grid


def _replace(network: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(find_layer(network, parent), leaf, layer)
