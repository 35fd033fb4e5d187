"""`aib explain`: any image file to a picture of its map and a record of how it was made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from aib.classifier import Classifier, seeded_evaluation
from aib.data.decode import centre_square, resized, to_tensor
from aib.data.folder import SUFFIXES
from aib.errors import AibError
from aib.figures.picture import Array, draw_explanation
from aib.interpret.maps import Method, gradcam_layer, make_maps

SHOWN_SIDE = 512  # pixels of a large photograph's longer side in the picture
TOP = 5


@dataclass(frozen=True)
class Explained:
    """One image's decision and map."""

    path: Path
    shown: Array  # uint8 [H,W,3]: the image, cut as the model saw it
    method: Method
    samples: str
    seed: int
    top: tuple[tuple[str, float], ...]  # the likeliest classes with their probabilities
    map: Tensor  # [h,w]
    levels: Tensor | None  # [h,w], 0 to Q - 1 in rising order of the anchors' values
    num_levels: int
    sigma: Tensor | None  # [h,w]
    layer: str | None  # Grad-CAM's

    def draw(self, subtitle: str = "") -> Any:
        """The picture, as a matplotlib figure."""
        name, probability = self.top[0]
        return draw_explanation(
            self.shown,
            self.map,
            title=f"{name}  {100 * probability:.1f}%",
            subtitle=subtitle,
            method="attention" if self.method == "own" else self.method.replace("_", " "),
            levels=self.levels,
            num_levels=self.num_levels,
            sigma=self.sigma,
        )

    def record(self) -> dict[str, Any]:
        """Plain JSON types."""
        least, most = (float(value) for value in self.map.float().aminmax())
        return {
            "image": str(self.path),
            "prediction": self.top[0][0],
            "probability": self.top[0][1],
            "top": [{"class": name, "probability": p} for name, p in self.top],
            "method": self.method,
            "gradcam_layer": self.layer,
            "samples": self.samples,
            "seed": self.seed,
            "map_size": list(self.map.shape),
            "map_range": [least, most],
        }


def find_images(paths: Sequence[Path]) -> list[Path]:
    """Files as they are named, and every image file inside folders."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES)
            if not inside:
                raise AibError(f"the folder {path} holds no image files")
            found += inside
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def explain_image(
    model: Classifier,
    image: Image.Image,
    path: Path,
    *,
    method: Method = "own",
    samples: tuple[int, int] | None = None,
    deterministic: bool = False,
    seed: int = 0,
) -> Explained:
    """Decide on one upright RGB image (of the file `path`) and make its map.

    The noise is seeded anew for each image, so a picture does not depend on the others.
    """
    policy = model.preprocessing
    device = next(model.parameters()).device
    pixels = to_tensor(resized(image, policy.image_size, policy.resize)).to(device)
    x = policy.normalise(pixels[None])  # [1,3,S,S]
    with seeded_evaluation(model, seed):
        out = model(x, samples, deterministic=deterministic)
        probability = out.logits.softmax(-1)[0]  # [C]
        layer = gradcam_layer(model, x) if method == "gradcam" else None
        if method == "own" and out.attention is None:
            raise AibError(
                "this model has no attention map of its own: ask for a post-hoc one with "
                "--method gradcam"
            )
        map = make_maps(model, x, method, probability.argmax()[None])[0]
    best = probability.topk(min(TOP, len(probability)))
    names = policy.class_names or tuple(str(i) for i in range(model.num_classes))
    levels, count, sigma = None, 0, None
    if method == "own" and out.attention is not None:
        _, ranks = model.mean_map(out.attention)
        levels = None if ranks is None else ranks[0]
        sigma = None if out.attention.sigma is None else out.attention.sigma[0]
        if model.quantizer is not None:
            count = model.quantizer.num_anchors
    return Explained(
        path=path,
        shown=_shown(image, model),
        method=method,
        samples=model.describe_samples(samples, deterministic),
        seed=seed,
        top=tuple(
            (names[i], p) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ),
        map=map.float().cpu(),
        levels=None if levels is None else levels.cpu(),
        num_levels=count,
        sigma=None if sigma is None else sigma.float().cpu(),
        layer=layer,
    )


def _shown(image: Image.Image, model: Classifier) -> Array:
    """The part of the image that the model saw, at a size fit for a picture."""
    if model.preprocessing.resize == "crop":
        image = image.crop(centre_square(image.width, image.height))
    if max(image.size) > SHOWN_SIDE:
        image = image.copy()  # `thumbnail` works in place
        image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    return np.asarray(image)
