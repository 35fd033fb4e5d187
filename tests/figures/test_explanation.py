"""Pictures and files of explanations."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import aib
from aib.figures.overlay import kept
from aib.figures.picture import distinct_names, magnified
from aib.interpret.maps import explain_batch
from aib.models.explanation import SEEN, panels
from aib.models.masked import information_bits
from tests.helpers import eval_model, pixels, shapes
from tests.interpret.planted import FromRed

NAMES = shapes(2).preprocessing.class_names


def explained(count=1, **options):
    return aib.explain(eval_model(data=shapes(2)), pixels(count), **options)


def test_a_picture_shows_the_whole_range_of_a_map_but_a_mask_as_it_is():
    found = explained()
    map = torch.linspace(0, 1, found.map.numel()).view_as(found.map)

    def shown(**changed):
        row = {panel.title: panel.values for panel in panels(replace(found, **changed))}
        return row["mask" if "mask" in changed else "attention map"].astype(float)

    np.testing.assert_allclose(shown(map=0.1 + 0.2 * map), shown(map=map), atol=8)
    np.testing.assert_allclose(shown(mask=map), shown(map=map), atol=8)
    assert np.abs(shown(mask=0.1 + 0.2 * map) - shown(map=map)).max() > 50


def test_the_saved_map_of_a_masked_model_is_the_mask_that_was_applied(tmp_path):
    model, batch = eval_model("tiny_aib_masked", shapes(2)), pixels(2)
    model.propose = FromRed(gain=2, stride=2)
    found = aib.explain(model, batch, samples=(2, 1))  # the probabilities are those of samples
    assert found.save(tmp_path) == [tmp_path / "image.png", tmp_path / "image-2.png"]
    x = model.preprocessing.normalise(batch)
    mask = model(x, deterministic=True).mask[0].detach().numpy()
    assert (mask == 0).any() and (mask == 1).any() and len(np.unique(mask)) > 100
    bits = information_bits(x, torch.from_numpy(mask), model.noise_std).sum((1, 2))
    for i, name in enumerate(("image", "image-2")):
        assert np.array_equal(np.load(tmp_path / f"{name}.npy"), mask[i])
        saved = json.loads((tmp_path / f"{name}.json").read_text())
        assert saved["map_size"] == [32, 32] and saved["map_range"] == [0, 1]
        assert saved["prediction"] == found.names()[i] and saved["seed"] == 0
        assert saved["area"] == pytest.approx(mask[i].mean(), rel=1e-5)
        assert saved["mask_bits"] == pytest.approx(float(bits[i]), rel=1e-5)
    row = panels(found, 1)
    assert [panel.title for panel in row] == ["image", SEEN, "mask"]
    assert np.array_equal(row[1].values, kept(magnified(found.images[1]), mask[1]))


def test_saving_needs_maps_a_name_per_image_and_leave_to_overwrite(tmp_path):
    found = explained(2)
    with pytest.raises(aib.AibError, match="images and maps"):
        explain_batch(eval_model(data=shapes(2)), torch.zeros(1, 3, 32, 32)).save(tmp_path)
    with pytest.raises(aib.AibError, match="2 different names"):
        found.save(tmp_path, ["one", "one"])
    found.save(tmp_path, ["one", "two"])
    with pytest.raises(aib.AibError, match=r"two\.png exists"):
        found.save(tmp_path, ["three", "two"])
    assert not (tmp_path / "three.png").exists()
    found.save(tmp_path, ["three", "two"], overwrite=True)
    assert (tmp_path / "three.png").exists()


def test_files_of_equal_names_are_distinct():
    found = distinct_names(["cat", "cat", "dog", "cat-2"])
    assert found == ["cat", "cat-2", "dog", "cat-2-2"]
