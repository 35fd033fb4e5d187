"""Our models as the measurements see them: one deterministic look, and maps by any method."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from aib.bottleneck import AIB
from aib.classifier import Classifier, evaluating
from aib.errors import AibError
from aib.explanation import Explanation, explain_output
from aib.gaussian import kl_to_standard_normal
from aib.interpret.metrics.information import energy_passed, index_entropy, nats_to_bits
from aib.interpret.posthoc import gradcam, has_captum, integrated_gradients, occlusion, saliency
from aib.types import Output

Method = Literal["own", "gradcam", "integrated_gradients", "saliency", "occlusion"]
METHODS: tuple[Method, ...] = get_args(Method)

# Grad-CAM is read from the last layer with at least this many places a side: VGG's last
# convolution at 32 x 32 sees a single place, of which there is no map.
MIN_PLACES = 4
# What makes the maps of our models stands beside the way from image to decision, not on it.
_ASIDE = ("attention", "contexts", "compatibilities", "project")


@dataclass(frozen=True)
class Look:
    """One deterministic pass over a batch: the decision, the map, the bits."""

    logits: Tensor  # [B,C]
    maps: Tensor | None  # [B,h,w], quantised where the model quantises
    indices: Tensor | None  # [B,h,w], the anchors of a quantised map
    kl_bits: Tensor | None  # [B]
    energy: Tensor | None  # [B], energy passed


@torch.no_grad()
def look(model: Classifier, x: Tensor) -> Look:
    """Everything about images [B,3,H,W] that one pass without noise tells."""
    features: list[Tensor] = []
    hook = None
    if isinstance(model, AIB) and model.attention is not None:
        hook = model.attention.register_forward_pre_hook(lambda _, inputs: features.append(*inputs))
    try:
        out: Output = model(x, deterministic=True)
    finally:
        if hook is not None:
            hook.remove()
    kl = None
    if out.latent is not None:
        kl = nats_to_bits(kl_to_standard_normal(out.latent.mu, out.latent.sigma)[0])  # [B]
    if out.attention is None:
        return Look(out.logits, None, None, kl, None)
    maps, _ = model.mean_map(out.attention)
    indices = None if out.attention.indices is None else out.attention.indices[0]
    energy = None
    if isinstance(model, AIB) and features:
        energy = energy_passed(features[0], maps, model.modulation)
    return Look(out.logits, maps, indices, kl, energy)


@torch.no_grad()
def own_maps(model: nn.Module, x: Tensor) -> Tensor:
    """The model's deterministic maps [B,h,w]."""
    assert isinstance(model, Classifier)
    with evaluating(model):
        attention = model(x, deterministic=True).attention
    if attention is None:
        raise AibError(
            "this model has no attention map of its own; use a post-hoc map such as gradcam"
        )
    return model.mean_map(attention)[0]


def logits(model: Classifier, x: Tensor, attention_map: Tensor | None = None) -> Tensor:
    """[B,C] without noise, under the model's own map or a given one [B,h,w]."""
    if attention_map is None:
        return model(x, deterministic=True).logits
    return model(x, deterministic=True, attention_map=attention_map).logits


def takes_maps(model: Classifier) -> str | None:
    """None if the model can be run under a given map, else the sentence that says why not."""
    if isinstance(model, AIB):
        return None if model.attention is not None else "the model has no map to replace"
    return (
        "not defined: the model weighs its features by several maps at once, and replacing one "
        "would not say whether it needs the others"
    )


def entropy_bits(model: Classifier, indices: Tensor) -> Tensor:
    """Entropy of each map's anchor indices [B]."""
    assert isinstance(model, AIB) and model.quantizer is not None
    return index_entropy(indices, model.quantizer.num_anchors)


def gradcam_layer(model: Classifier, x: Tensor) -> str:
    """The last layer on the way to the decision that gives [B,c,h,w] with 4 x 4 places or more."""
    asides = (getattr(model, name, None) for name in _ASIDE)
    aside = {m for part in asides if isinstance(part, nn.Module) for m in part.modules()}
    ran: list[str] = []

    def note(name: str) -> Callable[..., None]:
        def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
            is_grid = isinstance(output, Tensor) and output.ndim == 4
            if is_grid and min(output.shape[2:]) >= MIN_PLACES:
                ran.append(name)

        return keep

    modules = {name: m for name, m in model.named_modules() if name and m not in aside}
    hooks = [module.register_forward_hook(note(name)) for name, module in modules.items()]
    try:
        with torch.no_grad():
            model(x[:1], deterministic=True)
    finally:
        for hook in hooks:
            hook.remove()
    once = [name for name in ran if ran.count(name) == 1]  # a shared ReLU stands for no one place
    if not once:
        raise AibError(f"Grad-CAM needs a layer with {MIN_PLACES} x {MIN_PLACES} places; none has")
    return once[-1]


def make_maps(
    model: Classifier,
    x: Tensor,
    method: Method,
    target: Tensor | None = None,
    *,
    chunk: int | None = None,
) -> Tensor:
    """Maps [B,h,w] by one method, for the predicted class or for `target` [B]."""
    with evaluating(model):  # BatchNorm must not learn from being looked at
        return _make_maps(model, x, method, target, chunk)


def _make_maps(
    model: Classifier, x: Tensor, method: Method, target: Tensor | None, chunk: int | None
) -> Tensor:
    def forward(images: Tensor) -> Output:
        return model(images, deterministic=True)

    if method == "own":
        return own_maps(model, x)
    if method == "gradcam":
        layer = dict(model.named_modules())[gradcam_layer(model, x)]
        return gradcam(forward, x, layer, target)
    if method == "integrated_gradients":
        return integrated_gradients(forward, x, target, chunk=chunk)
    if method == "saliency":
        return saliency(forward, x, target)
    if method == "occlusion":
        side = min(x.shape[2:])  # a quarter of the image at a time, in steps of an eighth
        return occlusion(forward, x, target, window=max(2, side // 4), stride=max(1, side // 8))
    raise AibError(f"method must be one of {', '.join(METHODS)}, not {method!r}")


def explain_batch(
    model: Classifier, x: Tensor, *, method: Method | Literal["auto"] = "own", deterministic: bool
) -> Explanation:
    """Explain normalised images [B,3,H,W] by one forward pass, in evaluation mode."""
    with evaluating(model), torch.no_grad():
        out = model(x, deterministic=deterministic)
        maps, levels = (None, None) if out.attention is None else model.mean_map(out.attention)
    found = explain_output(
        out, x.shape[2:], mean_map=maps, level_indices=levels, quantizer=model.quantizer
    )
    if method == "auto":
        method = "gradcam" if maps is None and has_captum() else "own"
    if method == "own":
        return found
    return replace(found, method=method, map=make_maps(model, x, method, found.prediction))
