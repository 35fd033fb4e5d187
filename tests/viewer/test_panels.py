"""What a column shows: the right values, and text that cannot become markup."""

import numpy as np
import pytest
import torch

from aib.interpret import maps as maps_module
from aib.interpret.posthoc import has_captum
from aib.interpret.verdict import StoredVerdict, Verdict
from aib.models.explanation import SEEN, Explanation
from aib.viewer import panels
from tests.helpers import photo
from tests.viewer.fixtures import viewer

PICTURE = np.asarray(photo(32, 32))
NAMES = tuple(f"class{i}" for i in range(10))


def explanation(**parts) -> Explanation:
    """A map with three levels: half of it the lowest, a quarter the highest."""
    levels = torch.zeros(1, 8, 8, dtype=torch.long)
    levels[:, :4] = 7
    levels[:, :4, :4] = 19
    anchors = torch.linspace(0, 1, 20)
    values = {
        "probabilities": torch.full((1, 10), 0.1),
        "size": (32, 32),
        "class_names": NAMES,
        "samples": "4x12",
        "method": "own",
        "map": anchors[levels],
        "sigma": torch.rand(1, 8, 8),
        "level_indices": levels,
        "anchors": anchors,
    }
    return Explanation(**(values | parts))


def test_the_details_say_how_certain_the_decision_is():
    p = torch.tensor([[0.91, *[0.01] * 9]])
    sure = panels.details(explanation(probabilities=p, kl_bits=torch.tensor([7.25])))
    assert "KL of the latent 7.2 bits" in sure and "unsure" not in sure
    assert "**Unsure: it may show none of the classes**" in panels.details(explanation())


def test_a_masked_model_shows_the_mask_and_what_was_seen():
    mask = torch.linspace(0, 0.5, 32).expand(1, 32, 32)
    seen, sigma = torch.zeros(1, 3, 32, 32), torch.ones(1, 8, 8)
    found = explanation(mask=mask, seen=seen, bits=24 * mask, sigma=sigma)
    tiles = panels.maps(PICTURE, found, 1.0)
    assert [title for _, title in tiles] == [
        SEEN,
        "mask",
        "levels, 3 of 20 used",
        "uncertainty σ",
    ]
    assert "opens 25% of the image" in panels.details(found)


def test_what_the_blocks_change():
    def found(p, map):
        p = torch.tensor([p])
        return Explanation(p, (2, 2), ("ant", "bee", "cat"), map=None if map is None else map[None])

    map = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    other = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    before = found([0.7, 0.2, 0.1], map)
    text = panels.change_text(before, found([0.6, 0.3, 0.1], map))
    assert "The decision stays ant." in text and "| bee | 20.0% | 30.0% |" in text
    text = panels.change_text(before, found([0.1, 0.8, 0.1], other))
    assert "The decision changes: ant to bee." in text
    row = panels.change_maps(before, found([0.7, 0.2, 0.1], 2 * other))
    assert [panel.ends for panel in row] == [(0, 2), (0, 2), (-2, 2)]  # of both maps; white at 0
    assert row[2].values.tolist() == [[0, -1], [2, 0]]
    *_, unchanged = panels.change_maps(before, before)
    assert unchanged.ends[0] < 0 < unchanged.ends[1]
    assert panels.change_maps(before, found([0.7, 0.2, 0.1], None)) == []


def test_class_names_cannot_become_markup():
    assert panels.escape("a_b|<i>\n![x](y)$z") == r"a\_b\|\<i\> \!\[x\]\(y\)\$z"
    bad = explanation(class_names=("<img src=x>\n# [a](b)",) * 10)
    text = panels.change_text(bad, bad)
    assert r"\<img src\=x\> \# \[a\]\(b\)" in text and "<img" not in text.replace(r"\<", "")


@pytest.mark.parametrize(("name", "sign"), [("encoding", "⚠ "), ("faithful", "")])
def test_a_map_that_misleads_has_a_warning(name, sign):
    text = panels.verdict(StoredVerdict(Verdict(name, ()), "measured on <b>"))
    assert text.startswith(f"{sign}**Map: {name}.**") and r"measured on \<b\>" in text


@pytest.mark.skipif(not has_captum(), reason="needs the extra `posthoc`")
def test_a_model_without_attention_has_grad_cam_or_says_so(tmp_path, monkeypatch):
    for name, count in (("Grad-CAM", 1), ("no map", 0)):
        found = viewer(tmp_path, "tiny_dvib").show(photo(), "photo").now
        assert name in panels.details(found) and len(panels.maps(PICTURE, found, 0.5)) == count
        monkeypatch.setattr(maps_module, "has_captum", lambda: False)
