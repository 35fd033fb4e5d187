"""The page's parts: the right figures, nothing unescaped, a sentence where there is no map."""

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib import colormaps
from PIL import Image

from aib.viewer import analysis, panels
from aib.viewer.scene import Block
from tests.viewer.small import photo, viewer


def pictures(html: str) -> list[np.ndarray]:
    codes = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", html)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(code)))) for code in codes]


@pytest.fixture
def look(tmp_path):
    return viewer(tmp_path)


@pytest.fixture
def scene(look):
    """A map with three levels: half of it the lowest, a quarter the highest."""
    shown = look.show(photo(32, 32), "photo")
    found = shown.now[0]
    levels = torch.zeros_like(found.levels)
    levels[: levels.shape[0] // 2] = 7
    levels[: levels.shape[0] // 2, : levels.shape[1] // 2] = 19
    return replace(shown, now=(replace(found, levels=levels, map=found.anchors[levels]),))


def test_the_decision_in_order_with_its_figures(look, scene):
    chances = torch.tensor([0.02, 0.5, 0.0, 0.25, 0.1, 0.06, 0.03, 0.02, 0.01, 0.01])
    names = tuple(f"class{i}" for i in range(10))
    found = replace(scene.now[0], probabilities=chances, names=names, entropy=2.1)
    html = panels.decision(look, replace(scene, now=(found,)), 0, 0)
    assert re.findall(r"class\d", html) == ["class1", "class3", "class4", "class5", "class6"]
    assert re.findall(r"width:([\d.]+)%", html) == ["50.0", "25.0", "10.0", "6.0", "3.0"]
    assert "Entropy 2.10 of 3.32 bits" in html and "mean of 4x12 samples" in html


def test_the_number_of_levels_shown_is_the_number_asked_for(look, scene):
    seen = {shown: panels.levels(look, scene, 0, shown) for shown in (0, 1, 2, 3, 9)}
    clear = {shown: float((pictures(html)[1][:, :, 3] == 0).mean()) for shown, html in seen.items()}
    assert clear == {0: 1.0, 1: 0.75, 2: 0.5, 3: 0.0, 9: 0.0}
    assert "3 of 20 levels used; the 1 highest, 25% of the map" in seen[1]
    assert seen[2].count("aib-off") == 1 and seen[3].count("aib-off") == 0


def test_levels_have_the_colours_of_their_rank(scene):
    levels = scene.now[0].levels
    layer = panels.level_layer(levels, [19, 7, 0], 20)
    assert tuple(layer[0, 0]) == tuple(colormaps["viridis"](1.0, bytes=True))
    assert tuple(layer[-1, -1]) == tuple(colormaps["viridis"](0.0, bytes=True))


def test_the_map_is_a_layer_of_its_own_over_the_picture(look, scene):
    base, layer = pictures(panels.attention(look, scene, 0, 0))
    assert np.array_equal(base, np.asarray(photo(32, 32)))
    assert layer[0, 0] / 255 == pytest.approx(colormaps["viridis"](1.0)[:3], abs=0.003)
    assert layer[-1, 0] / 255 == pytest.approx(colormaps["viridis"](0.0)[:3], abs=0.003)


def test_samples_and_the_input_are_shown(look, scene):
    drawn = pictures(panels.samples(look, scene, 0, 0))
    assert len(drawn) == 5 and np.array_equal(drawn[0], np.asarray(photo(32, 32)))


def test_names_from_files_cannot_write_into_the_page(look, scene):
    bad = '<img src=x onerror="alert(1)">{{value}}${value}'
    found = replace(scene.now[0], names=(bad,) * 10)
    covered = replace(scene, now=(found,), before=(found,), blocks=(Block(0.5, 0.5, 0.2),))
    parts = [panel(look, covered, 0, 3) for panel in panels.PANELS] + [panels.message(bad)]
    for html in parts:
        assert "<img src=x" not in html and "{" not in html.replace("&#123;", "")
    assert sum("&lt;img src=x" in html for html in parts) >= 3


def test_what_the_blocks_change_in_words():
    def found(chances, map):
        names = tuple("ant bee cat".split())
        blank = dict.fromkeys(analysis.Analysis.__dataclass_fields__)
        values = {"names": names, "probabilities": torch.tensor(chances), "map": map}
        return analysis.Analysis(**(blank | values))

    map = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    other = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    before = found([0.7, 0.2, 0.1], map)
    assert panels.change_text(before, found([0.6, 0.3, 0.1], map)) == (
        "The decision stays ant: 70.0% to 60.0%. The maps' cosine is 1.00, centred 1.00."
    )
    assert panels.change_text(before, found([0.1, 0.8, 0.1], other)) == (
        "The decision changes from ant (70.0% to 10.0%) to bee (80.0%). "
        "The maps' cosine is 0.00, centred -0.33."
    )
    flat = panels.change_text(before, found([0.7, 0.2, 0.1], torch.ones(2, 2)))
    assert flat.endswith("The maps' cosine is 0.00 (one of them is flat).")


def test_before_after_and_difference_are_drawn(look, scene):
    assert panels.change(look, scene, 0, 3) == ""
    covered = look.cover(look.show(photo(32, 32), "photo"), Block(0.5, 0.5, 0.4))
    html = panels.change(look, covered, 0, 3)
    assert len(pictures(html)) == 3 and "map before" in html and "difference" in html


def test_a_model_without_levels_or_noise_says_so(tmp_path):
    look = viewer(tmp_path, "tiny_aib")
    scene = look.show(photo(), "photo")
    assert "does not quantise" in panels.levels(look, scene, 0, 5)
    look = viewer(tmp_path, "vgg_att2")
    scene = look.show(photo(), "photo")
    assert "not random" in panels.uncertainty(look, scene, 0, 5)
    assert "no samples" in panels.samples(look, scene, 0, 5)


def test_one_sample_is_shown_as_well(tmp_path):
    look = viewer(tmp_path, samples=(1, 1))
    html = panels.samples(look, look.show(photo(), "photo"), 0, 5)
    assert len(pictures(html)) == 2 and "sample 1" in html


def test_a_model_without_attention_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(analysis, "has_captum", lambda: False)
    look = viewer(tmp_path, "tiny_dvib")
    scene = look.cover(look.show(photo(), "photo"), Block(0.5, 0.5, 0.3))
    parts = [panel(look, scene, 0, 0) for panel in panels.PANELS]
    assert "no attention of its own" in parts[1]
    assert "The decision" in parts[-1] and not pictures(parts[-1])
