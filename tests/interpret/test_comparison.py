"""Kinds of maps on the same model and images."""

from dataclasses import replace

import pytest
import torch

from aib.data import ImageFiles
from aib.interpret import comparison
from aib.interpret.comparison import compare, map_kinds, no_masks
from aib.interpret.maps import make_maps
from tests.interpret.small import feed, make_model, shapes

DATA = shapes(20)


def test_a_map_equal_to_the_mask_is_located_perfectly(monkeypatch):
    def maps(model, x, batch, name, seed, chunk):
        return batch.masks.float() if name == "own" else real(model, x, batch, name, seed, chunk)

    real = comparison.maps_of_kind
    monkeypatch.setattr(comparison, "maps_of_kind", maps)
    found = compare(
        make_model("tiny_aib", DATA), feed(DATA), ("own", "centre", "random"), masks=True, steps=2
    )
    assert found.localisation["own"].auroc.value == 1
    assert found.localisation["own"].energy.value == 1
    assert found.localisation["own"].pointing.value == 1
    assert abs(found.localisation["random"].auroc.value - 0.5) < 0.1
    curve = found.faithfulness["own"].deletion_curve
    assert len(curve) == 3 and curve[0] == pytest.approx(
        found.faithfulness["centre"].deletion_curve[0]
    )


def test_the_completeness_gap_of_integrated_gradients_is_measured():
    pytest.importorskip("captum")
    model = make_model("tiny_aib_qt", DATA)
    named = ("integrated_gradients", "centre")
    found = compare(model, feed(DATA), named, masks=False, steps=1)
    assert found.faithfulness["centre"].completeness_gap is None
    x = model.preprocessing.normalise(DATA.images)
    with torch.no_grad():
        scores = model(x, deterministic=True).sample_logits[0, 0]
        blank = model(torch.zeros_like(x), deterministic=True).sample_logits[0, 0]
    classes = scores.argmax(1)
    change = (scores - blank).gather(1, classes[:, None])[:, 0]
    missed = make_maps(model, x, "integrated_gradients", classes).sum((1, 2)) - change
    gap = float(missed.abs().sum() / change.abs().sum())
    assert gap > 0
    assert found.faithfulness["integrated_gradients"].completeness_gap == pytest.approx(
        gap, rel=1e-3
    )


def test_data_without_masks_give_the_reason(tmp_path):
    assert no_masks(DATA) is None
    assert "neither" in no_masks(replace(DATA, masks=None))
    crops = torch.zeros(20, 4)
    files = ImageFiles(tuple(tmp_path for _ in range(20)), crops)
    cut = replace(DATA, images=None, masks=None, files=files)
    assert "cropped to the objects' boxes" in no_masks(cut)


def test_without_captum_the_controls_remain(monkeypatch):
    monkeypatch.setattr(comparison, "has_captum", lambda: False)
    assert map_kinds(True) == ("own", "centre", "random")
    monkeypatch.setattr(comparison, "has_captum", lambda: True)
    assert map_kinds(False) == ("gradcam", "integrated_gradients", "centre", "random")
