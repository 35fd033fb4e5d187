"""Explain images: one forward pass to one `Explanation`, with the model's own map or another.

explanation = aib.explain(model, "photo.jpg")
explanation.save("maps")
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from aib.config.validation import Method, check, check_decided
from aib.data.decode import centre_square, resized, to_image, to_tensor
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.figures.overlay import Array
from aib.figures.picture import image_tile
from aib.interpret.posthoc import gradcam_layer, gradcam_maps, has_captum
from aib.models.classifier import Classifier, check_model, model_name
from aib.models.explanation import Explanation
from aib.models.modes import evaluating, seeded_evaluation
from aib.system.environment import environment

ImagesToMaps = Callable[[Tensor], Tensor | Array]  # normalised [B,3,H,W] to maps [B,h,w]
NO_MAP = "this model has no attention map of its own; use a post-hoc one with --method gradcam"
SHOWN_SIDE = 320  # pixels of the longer side that a large photograph is drawn with


def explain(
    model: Classifier,
    source: str | Path | Sequence[str | Path] | Image.Image | Array | Tensor,
    *,
    method: Method | Literal["auto"] = "own",
    samples: tuple[int, int] | None = None,
    deterministic: bool = False,
    seed: int = 0,
) -> Explanation:
    """Decide on an image, or a batch of them, and show the map behind the decision.

    `source` is the path of an image file or a list of paths, a PIL image, a uint8 array [H,W,3], or
    a tensor [B,3,H,W] or [3,H,W]: uint8 pixels, or floats normalised as `model(x)` takes them. All
    but floats are resized as the model's preprocessing says. `method` is "own" for the
    model's own map, or "gradcam"; "auto" takes Grad-CAM where the model has no map. The noise comes
    from `seed`, so that the same call gives the same explanation. `samples` are (S, M), by default
    as many as in evaluation; a masked model without a latent makes one deterministic pass.
    """
    check("method", method, Literal["auto", Method])
    check_model(model, "explain")
    x, images = _read(model, source)
    found = explain_batch(
        model, x, method=method, samples=samples, deterministic=deterministic, seed=seed
    )
    if found.map is None:
        raise AibError(NO_MAP)
    check_decided(int(found.probability.isnan().sum()), len(found))
    found = found.calibrated(model.calibration).cpu()
    return replace(
        found,
        images=images,
        paths=tuple(_paths(source)),
        made_with={
            "model": model_name(model),
            "recipe": model.recipe,
            "preprocessing": model.preprocessing.to_dict(),
            "environment": environment(),
        },
    )


def _paths(source: Any) -> list[Path]:
    """The image files that a source names."""
    sources = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(one, str | Path) for one in sources):
        return []
    return [Path(one) for one in sources]


def explain_batch(
    model: Classifier,
    x: Tensor,
    *,
    method: Method | Literal["auto"] = "own",
    samples: tuple[int, int] | None = None,
    deterministic: bool = False,
    seed: int | None = None,
) -> Explanation:
    """Explain normalised images [B,3,H,W] by one forward pass, in evaluation mode.

    Grad-CAM adds captum's passes. "auto" takes the model's own map, otherwise Grad-CAM where
    captum is installed. Without a map `map` and `method` are None. `seed` fixes the samples;
    None takes them from the global generator.
    """
    if samples is None and model.takes_mask and model.eval_samples[1] == 1:  # without a latent
        deterministic = True  # a sample would differ in the noise behind the mask alone
    mode = nullcontext() if seed is None else seeded_evaluation(model, seed)
    with mode, evaluating(model), torch.no_grad():
        out = model(x, samples, deterministic=deterministic)
    found = model.explanation_of(out, x, model.describe_samples(samples, deterministic))
    found = replace(found, seed=None if found.samples == "deterministic" else seed)
    if method == "auto":
        method = "gradcam" if found.map is None and has_captum() else "own"
    if method == "own":
        return found
    layer = gradcam_layer(model, x)
    maps = gradcam_maps(model, x, found.prediction, layer)
    own = ("sigma", "level_indices", "anchors", "mask", "seen", "bits")
    without: dict[str, Any] = dict.fromkeys(own)
    return replace(found, method=method, layer=layer, map=maps, **without)


def own_maps(model: nn.Module, x: Tensor) -> Tensor:
    """The model's deterministic maps [B,h,w]."""
    assert isinstance(model, Classifier)
    maps = explain_batch(model, x, deterministic=True).map
    if maps is None:
        raise AibError(NO_MAP)
    return maps


def _read(model: Classifier, source: Any) -> tuple[Tensor, tuple[Array, ...]]:
    """A source as normalised images [B,3,S,S] on the model's device, and as pictures."""
    policy, device = model.preprocessing, next(model.parameters()).device
    photographs: list[Any] = _paths(source) or [source]
    if isinstance(source, Tensor):
        batch = source[None] if source.ndim == 3 else source
        if batch.ndim != 4 or batch.shape[1] != 3 or not len(batch):
            found = list(source.shape)
            raise AibError(f"images must be [B,3,H,W] with B at least 1, or [3,H,W], not {found}")
        if batch.dtype != torch.uint8:
            tiles = tuple(image_tile(image) for image in policy.to_pixels(batch))
            return batch.to(device), tiles
        photographs = list(batch)
    read = [_read_photograph(policy, one) for one in photographs]
    x = policy.normalise(torch.stack([pixels for pixels, _ in read]).to(device))
    return x, tuple(picture for _, picture in read)


def _read_photograph(policy: Preprocessing, source: Any) -> tuple[Tensor, Array]:
    """The pixels [3,S,S] that the model sees, and the picture to draw."""
    image = to_image(source)
    pixels = to_tensor(resized(image, policy.image_size, policy.resize))
    if policy.resize == "crop":
        left, top, right, bottom = map(int, centre_square(*image.size))
        image = image.crop((left, top, right, bottom))
    elif max(image.size) > SHOWN_SIDE:
        image = image.copy()  # `thumbnail` works in place
    image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    return pixels, np.asarray(image)
