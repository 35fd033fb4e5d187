"""The pictures of `aib interpret`."""

from dataclasses import replace

import pytest

from aib.data import Batches
from aib.figures.picture import image_tile, map_tile
from aib.interpret.maps import explain_batch
from aib.interpret.pictures import modified_grid
from aib.interpret.studies import Plan
from tests.helpers import eval_model, shapes


@pytest.fixture
def grid(monkeypatch):
    """What is drawn from now on: rows, names of rows, names of columns, title."""
    monkeypatch.setattr("aib.interpret.pictures.draw_mosaic", lambda *drawn: drawn)


def test_modified_images_stand_above_the_maps_of_each_model(grid):
    models = {"paper's": eval_model("tiny_aib_qt"), "masked": eval_model("tiny_aib_masked")}
    feed = Batches(shapes(6), 3)
    rows, names, *_ = modified_grid(models, feed, Plan(), columns=2)
    assert names[:4] == ["original", "paper's", "masked", "color-8"]
    assert names[4:6] == ["paper's", "masked"] and len(names) == len(rows) == 12
    images = next(iter(feed.sample(2, 0))).images
    assert (rows[0][0] == image_tile(images[0])).all()
    masked = models["masked"]
    found = explain_batch(masked, masked.preprocessing.normalise(images), deterministic=True)
    assert found.mask is not None  # what is shown is what was applied
    assert (rows[2][0] == map_tile(found.mask[0])).all()
    _, _, columns, _ = modified_grid(models, feed, Plan(), columns=5)  # more than a batch has
    assert len(columns) == 5


def test_a_long_name_is_broken_into_lines(grid):
    names = ("american_pit_bull_terrier", "German Shepherd Dog", "cat", *"defghij")
    data = shapes(30)
    data = replace(data, preprocessing=replace(data.preprocessing, class_names=names))
    feed = Batches(data, 30)
    _, _, columns, _ = modified_grid({"model": eval_model("tiny_aib")}, feed, Plan({}), columns=30)
    assert {"american_pit_\nbull_terrier", "German\nShepherd Dog", "cat"} <= {*columns}
