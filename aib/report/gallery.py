"""A sample of images with their predictions and maps."""

from dataclasses import dataclass

from torch import Tensor

from aib.data import Batches
from aib.evaluation.error import describe_split
from aib.figures.embed import picture_uri
from aib.figures.overlay import BITS_COLORS, SIGMA_COLORS, Array, overlay
from aib.figures.picture import image_tile, magnified
from aib.interpret.maps import explain_batch
from aib.models.classifier import Classifier
from aib.models.explanation import Explanation

SIDE = 96  # pixels of a small picture in the page


@dataclass(frozen=True)
class GalleryItem:
    """One image: its class, the prediction, and pictures as (what it shows, data URI) pairs."""

    truth: str
    prediction: str
    probability: float
    tiles: list[tuple[str, str]]


@dataclass(frozen=True)
class Gallery:
    """Images with their maps, and what is shown from left to right."""

    items: list[GalleryItem]
    caption: str


def make_gallery(
    model: Classifier, feed: Batches, *, count: int = 12, seed: int = 0
) -> Gallery | None:
    """A seeded sample of images with their maps: the model's own, or Grad-CAM's without any."""
    batch = next(iter(feed.sample(count, seed)))
    x = model.preprocessing.normalise(batch.images)
    explanation = explain_batch(model, x, method="auto", deterministic=True).cpu()
    if explanation.map is None:
        return None
    names, items = feed.data.class_names, []
    for i, predicted in enumerate(explanation.prediction.tolist()):
        tiles = _tiles(_scaled(image_tile(batch.images[i])), explanation, i)
        items.append(
            GalleryItem(
                truth=names[int(batch.labels[i])],
                prediction=names[predicted],
                probability=float(explanation.probability[i]),
                tiles=[(what, picture_uri(tile)) for what, tile in tiles],
            )
        )
    order = ", ".join(what for what, _ in items[0].tiles)
    scale = "each map is scaled to its own range, however faint it is"
    if explanation.mask is not None:
        scale = "the map's colours run from 0 (closed) to 1 (open), those of the others over their "
        scale += "own range"
    if explanation.level_indices is not None:
        scale += "; levels from the lowest anchor to the highest"
    split = describe_split(feed.data.split)
    caption = f"A random sample of {split} images. From left to right: {order}. Yellow is high; "
    return Gallery(items, f"{caption}{scale}.")


def _tiles(picture: Array, explanation: Explanation, i: int) -> list[tuple[str, Array]]:
    """(what it shows, uint8 [H,W,3]): image, map, and levels and uncertainty where they exist."""
    shown, masked = explanation.shown_map, explanation.mask is not None
    assert shown is not None
    name = "map" if explanation.method == "own" else "Grad-CAM"
    over = overlay(picture, shown[i], scale=not masked)  # a mask is a share: from 0 to 1
    tiles = [("image", picture), (f"{name} over it", over)]
    blank = picture * 0
    if explanation.seen_pixels is not None and explanation.bits is not None:
        seen = _scaled(image_tile(explanation.seen_pixels[i]))
        bits = overlay(blank, _blocks(explanation.bits[i]), colormap=BITS_COLORS, alpha=1.0)
        tiles += [("seen by the classifier", seen), ("bits per pixel", bits)]
    if explanation.level_indices is not None and explanation.anchors is not None:
        level = explanation.level_indices[i].float() / max(len(explanation.anchors) - 1, 1)
        tiles.append(("levels", overlay(blank, _blocks(level), alpha=1.0, scale=False)))
    if explanation.sigma is not None:
        sigma = _blocks(explanation.sigma[i])
        tiles.append(("uncertainty", overlay(blank, sigma, colormap=SIGMA_COLORS, alpha=1.0)))
    return tiles


def _scaled(tile: Array) -> Array:
    """Enlarged by an integer factor to about SIDE pixels; a large image is subsampled instead."""
    step = max(1, max(tile.shape[:2]) // (2 * SIDE))
    return magnified(tile[::step, ::step], SIDE)


def _blocks(map: Tensor) -> Array:
    """Each position as a square, not interpolated."""
    return magnified(map.float().numpy(), SIDE)
