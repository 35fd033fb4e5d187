"""Kinds of maps on the same model and images."""

from dataclasses import replace

import pytest
import torch
from aib.interpret.comparison import compare, map_kinds, no_objects

from aib.data import Batches, ImageFiles
from aib.errors import AibError
from aib.interpret import WSOL, boxes_to_objects, comparison
from aib.interpret.maps import make_maps
from aib.interpret.metrics.wsol import object_boxes
from tests.helpers import eval_model, shapes

DATA = shapes(20)


def test_held_out_thresholds_come_from_the_other_images(monkeypatch):
    """Evaluated maps are 0.6 on the object and 0.3 beside it; the others 0.2 and 0.1."""

    def maps(model, x, batch, name, seed, chunk):
        inside, outside = (0.6, 0.3) if batch.images.shape[0] == 4 else (0.2, 0.1)
        made = torch.where(batch.objects == 1, inside, 0.0)
        made[:, :3] += outside
        made[:, -1, -1] = 1.0
        return made

    monkeypatch.setattr(comparison, "maps_of_kind", maps)
    model = eval_model("tiny_aib", DATA)
    evaluated = Batches(DATA.subset(torch.arange(4)), 4)
    other = Batches(DATA.subset(torch.arange(4, 9)), 5)
    found = compare(model, evaluated, ("own",), objects=True, threshold_images=other)
    own, alone = found.localisation["own"], WSOL()
    for batch in other:
        alone.update(maps(model, None, batch, "own", 0, 8), batch.objects)
    best = alone.thresholds()
    assert max(best.boxes) < 0.3 and best.mask < 0.3  # where the evaluated maps show both
    direct = WSOL(thresholds=best)
    for batch in evaluated:
        direct.update(maps(model, None, batch, "own", 0, 8), batch.objects)
    expected = direct.compute()
    assert own.mask_iou_held_out.value == pytest.approx(float(expected["mask_iou_held_out"]))
    assert own.box_acc_held_out.value == pytest.approx(float(expected["box_acc_held_out"]))
    assert own.mask_iou_held_out.value < own.mask_iou.value


def test_images_without_masks_choose_no_thresholds():
    model, feed = eval_model("tiny_aib", DATA), Batches(DATA, 8)
    others = Batches(replace(DATA, objects=None), 8)
    with pytest.raises(AibError, match="the images that choose thresholds need masks or boxes"):
        compare(model, feed, ("own",), objects=True, threshold_images=others)


def test_filled_boxes_have_no_scores_of_masks():
    data = DATA.subset(torch.arange(4))
    data = replace(data, objects=None, boxes=object_boxes(data.objects).float())
    model, feed = eval_model("tiny_aib", DATA), Batches(data, 8)
    found = compare(model, feed, ("own",), objects=True, threshold_images=feed)
    own = found.localisation["own"]
    assert own.max_box_acc is not None and own.box_acc_held_out.value == own.max_box_acc.value
    assert own.pxap is own.mask_iou is own.mask_iou_held_out is None


def test_the_completeness_gap_of_integrated_gradients_is_measured():
    pytest.importorskip("captum")
    model = eval_model("tiny_aib_qt", DATA)
    named = ("integrated_gradients", "centre")
    found = compare(model, Batches(DATA, 8), named, objects=False)
    assert found.faithfulness["centre"].completeness_gap is None
    x = model.preprocessing.normalise(DATA.images)
    with torch.no_grad():
        scores = model(x, deterministic=True).sample_logits[0, 0]
        blank = model(torch.zeros_like(x), deterministic=True).sample_logits[0, 0]
    classes = scores.argmax(1)
    change = (scores - blank).gather(1, classes[:, None])[:, 0]
    missed = make_maps(model, x, "integrated_gradients", classes).sum((1, 2)) - change
    gap = float(missed.abs().sum() / change.abs().sum())
    exact = found.faithfulness["integrated_gradients"]
    assert exact.completeness_gap == pytest.approx(gap, rel=1e-3) and gap > 0


def test_official_boxes_are_scored_beside_outlines(monkeypatch):
    """Maps that are the boxes: their boxes are right, though the masks are elsewhere."""
    boxes = torch.tensor([[2.0, 3.0, 12.0, 20.0]]).repeat(4, 1)
    data = replace(DATA.subset(torch.arange(4)), boxes=boxes)

    def maps(model, x, batch, name, seed, chunk):
        return boxes_to_objects(batch.boxes, (x.shape[2], x.shape[3])).float()

    monkeypatch.setattr(comparison, "maps_of_kind", maps)
    model, feed = eval_model("tiny_aib", DATA), Batches(data, 8)
    found = compare(model, feed, ("own",), objects=True, threshold_images=feed)
    own = found.localisation["own"]
    assert own.max_box_acc.value == own.box_acc_held_out.value == 1
    assert own.mask_iou.value < 0.9 and own.pxap is not None


def test_data_without_masks_give_the_reason(tmp_path):
    assert no_objects(DATA) is None
    assert "neither" in no_objects(replace(DATA, objects=None))
    crops = torch.zeros(20, 4)
    files = ImageFiles(tuple(tmp_path for _ in range(20)), crops)
    cut = replace(DATA, images=None, objects=None, files=files)
    assert "cropped to the objects' boxes" in no_objects(cut)


def test_without_captum_the_controls_remain(monkeypatch):
    monkeypatch.setattr(comparison, "has_captum", lambda: False)
    assert map_kinds(True) == ("own", "centre", "random")
