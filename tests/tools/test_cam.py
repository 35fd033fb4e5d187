"""Class activation maps and what is measured of them."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import aib
import tools.cam
from aib.interpret import gradcam
from aib.models.registry import BACKBONES, MODELS
from tests.data import official
from tools.cam import NETWORKS, class_activation_maps, main, register
from tools.results.read import read_results
from tools.results.tables import make_table

SMALL = {"width": 0.05, "compile": False, "precision": "fp32", "batch_size": 2}


@pytest.fixture(autouse=True)
def _registered():
    register()
    yield
    for name in NETWORKS:
        del BACKBONES[name, 224], MODELS[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_positive_part_is_grad_cam_of_the_last_convolution(name):
    """For one average per channel the two are the same, but for a factor."""
    pytest.importorskip("captum")
    model = aib.create_model(name, 5, 224, width=0.05, head_norm=True).eval()
    x, labels = torch.randn(3, 3, 64, 64), torch.tensor([4, 0, 2])
    maps = class_activation_maps(model, x, labels)
    side = 8 if "fine" in name else 4
    assert maps.shape == (3, side, side) and maps.min() < 0
    known = gradcam(model, x, "tail.1" if "deeper" in name else "stem.29", labels)
    ours = F.interpolate(maps.clamp_min(0)[:, None], (64, 64), mode="bilinear")[:, 0]
    for one, other in zip(ours, known, strict=True):
        torch.testing.assert_close(one / one.max(), other / other.max(), rtol=1e-4, atol=1e-5)


def test_every_network_is_trained_measured_and_shown(tmp_path, monkeypatch):
    folder = official.write_cub(tmp_path)
    names = [line.split()[1] for line in (folder / "images.txt").read_text().splitlines()]
    official.write_segmentations(folder / "segmentations", names)
    for name in ("PLAIN", "MASKED"):
        recipe = getattr(tools.cam, name).updated(data="cub200:partial,image_size=112", **SMALL)
        monkeypatch.setattr(tools.cam, name, recipe)
    stem = aib.create_model("vgg", 2, 224, width=0.05).stem
    weights = {f"features.{name}": v.numpy() for name, v in stem.state_dict().items()}
    np.savez(tmp_path / "small.npz", **weights)
    out = tmp_path / "results" / "boxes.json"
    out.parent.mkdir()
    words = [str(out), "--init", f"vgg16:{tmp_path / 'small.npz'}", "--root", str(tmp_path)]
    words += ["--epochs", "1", "--runs", str(tmp_path / "runs")]
    main(words)
    found = json.loads(out.read_text())
    assert [row["model"] for row in found["boxes"]] == [*NETWORKS, "vgg_aib_masked"]
    assert str(tmp_path) not in out.read_text()
    assert "python -m tools.cam" in found["environment"]["command"]
    for row in found["boxes"]:
        for form in row["maps"]:
            assert 0 <= form["max_box_acc"] <= form["max_box_acc_any"] <= 1
    table = make_table(read_results(out.parent), "boxes")
    assert len(table.rows) == len(NETWORKS) + 1
    forms = {(form["class"], form["values"]): form for form in found["boxes"][0]["maps"]}
    shown = [
        forms[form]["max_box_acc"] for form in (("predicted", "all"), ("predicted", "positive"))
    ]
    shown += [forms["true", "positive"][name] for name in ("max_box_acc", "max_box_acc_any")]
    assert list(table.rows[0][2:]) == [f"{100 * value:.1f}" for value in shown]
    before = out.read_text()
    main(words)  # finished runs are used again
    assert json.loads(out.read_text())["boxes"] == json.loads(before)["boxes"]
