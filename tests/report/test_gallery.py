"""The images in a report: of a masked model also what its classifier saw."""

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from aib.data import Batches
from aib.figures.overlay import SIGMA_COLORS, overlay
from aib.interpret.maps import explain_batch
from aib.report.blocks import blocks
from aib.report.gallery import GalleryItem, make_gallery
from tests.helpers import Numbers, eval_model, fill, shapes


def tile(item, what):
    """The pixels of one of its pictures."""
    content = base64.b64decode(dict(item.tiles)[what].partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)))


def test_every_part_of_an_item_is_of_its_own_image():
    data, feed = shapes(8), Batches(shapes(8), 8)
    model = eval_model(data=data)
    fill(model, Numbers(0))
    gallery = make_gallery(model, feed, count=3, seed=5)
    batch = next(iter(feed.sample(3, 5)))
    found = explain_batch(model, model.preprocessing.normalise(batch.images), deterministic=True)
    blank = np.zeros((96, 96, 3), np.uint8)
    for i, item in enumerate(gallery.items):
        assert item.truth == data.class_names[batch.labels[i]]
        assert item.prediction == data.class_names[found.prediction[i]]
        assert item.probability == pytest.approx(float(found.probability[i]))
        picture = tile(item, "image")
        assert np.array_equal(picture[::3, ::3], batch.images[i].permute(1, 2, 0))
        assert np.array_equal(tile(item, "map over it"), overlay(picture, found.map[i]))
        level, sigma = (
            np.kron(m[i], np.ones((12, 12))) for m in (found.level_indices, found.sigma)
        )
        shown = overlay(blank, level / 19, alpha=1.0, scale=False)  # there are 20 anchors
        assert np.array_equal(tile(item, "levels"), shown)
        shown = overlay(blank, sigma, SIGMA_COLORS, 1.0)
        assert np.array_equal(tile(item, "uncertainty"), shown)


def test_a_masked_model_shows_what_was_seen_and_the_bits():
    data = shapes(4)
    model = eval_model("tiny_aib_masked", data)
    fill(model, Numbers(0))
    feed = Batches(data, 4)
    gallery = make_gallery(model, feed, count=2)
    names = [what for what, _ in gallery.items[0].tiles]
    assert names[:4] == ["image", "map over it", "seen by the classifier", "bits per pixel"]
    assert "colours run from 0 (closed) to 1 (open)" in gallery.caption
    assert "levels" not in gallery.caption
    batch = next(iter(feed.sample(2, 0)))
    x = model.preprocessing.normalise(batch.images)
    found = explain_batch(model, x, deterministic=True)
    for i, item in enumerate(gallery.items):
        seen = tile(item, "seen by the classifier")[::3, ::3]
        assert np.array_equal(seen, found.seen_pixels[i].permute(1, 2, 0))
        over = overlay(tile(item, "image"), found.mask[i], scale=False)
        assert np.array_equal(tile(item, "map over it"), over)


def test_other_models_show_neither():
    gallery = make_gallery(eval_model(data=shapes(2)), Batches(shapes(2), 2), count=2)
    names = [what for what, _ in gallery.items[0].tiles]
    assert names == ["image", "map over it", "levels", "uncertainty"]
    assert "each map is scaled to its own range" in gallery.caption
    assert "levels from the lowest anchor to the highest" in gallery.caption


def test_a_model_without_a_map_shows_grad_cam_by_that_name():
    pytest.importorskip("captum")
    gallery = make_gallery(eval_model("tiny", shapes(2)), Batches(shapes(2), 2), count=2)
    assert [what for what, _ in gallery.items[0].tiles] == ["image", "Grad-CAM over it"]


@pytest.mark.parametrize(
    ("split", "name"), [("test", "test"), ("val", "held-out"), ("train", "training")]
)
def test_the_caption_names_the_split(split, name):
    feed = Batches(replace(shapes(2), split=split), 2)
    gallery = make_gallery(eval_model(data=shapes(2)), feed, count=2)
    assert gallery.caption.startswith(f"A random sample of {name} images.")


def test_a_caption_has_the_prediction_and_the_true_class():
    items = [GalleryItem(truth, "כלב", 0.97, []) for truth in ("כלב", "cat")]
    right, wrong = re.findall("<figcaption>.*?</figcaption>", blocks.gallery(items), re.DOTALL)
    # a name in Hebrew does not turn the order of the line around
    assert "<bdi>כלב</bdi> 97%" in right and "✓" in right and "it is" not in right
    assert "<bdi>כלב</bdi> 97%" in wrong and "✗ it is <bdi>cat</bdi>" in wrong
