"""What a column shows: the right values and colours, and text that cannot become markup."""

import numpy as np
import pytest
import torch
from matplotlib import colormaps

from aib.data.preprocessing import Preprocessing
from aib.interpret import maps as maps_module
from aib.interpret.stored import StoredVerdict
from aib.interpret.verdict import Verdict
from aib.models.explanation import Explanation
from aib.viewer import panels
from tests.helpers import photo
from tests.viewer.fixtures import viewer

PICTURE = np.asarray(photo(32, 32))
NAMES = tuple(f"class{i}" for i in range(10))


def colour(value: float, name: str = "viridis"):
    return np.rint(255 * np.array(colormaps[name](float(value))[:3])).astype(int)


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


def test_the_likeliest_classes_in_order_with_their_spread():
    p = torch.tensor([[0.02, 0.5, 0.0, 0.25, 0.1, 0.06, 0.03, 0.02, 0.01, 0.01]])
    each = torch.stack([1.1 * p, 0.9 * p])
    found = explanation(probabilities=p, sample_probabilities=each, kl_bits=torch.tensor([7.25]))
    assert list(panels.decision(found)) == ["class1", "class3", "class4", "class5", "class6"]
    assert panels.decision(found)["class3"] == pytest.approx(0.25)
    text = panels.details(found)
    assert "of 3.32 bits" in text and "KL of the latent 7.2 bits" in text
    assert "of 4x12 samples: class1 50.0 ± 7.1%, class3 25.0 ± 3.5%" in text


def test_classes_of_one_name_are_all_shown():
    """ImageNet has two cranes."""
    shares = torch.tensor([[0.5, 0.3, 0.2]])
    shown = panels.decision(explanation(probabilities=shares, class_names=("crane",) * 3))
    assert [name.strip() for name in shown] == ["crane"] * 3
    assert [*shown.values()] == shares[0].tolist()


def test_the_probability_shown_need_not_be_the_mean_of_the_samples():
    """In the released profile it is that of the mean logits."""
    each = torch.tensor([[[0.9, 0.1]], [[0.2, 0.8]]])
    found = explanation(probabilities=torch.tensor([[0.6, 0.4]]), sample_probabilities=each)
    text = panels.details(found)
    assert "Mean" not in text and "of them" not in text
    assert "Probability ± std of 4x12 samples: class0 60.0 ± 49.5%" in text


def test_an_unsure_decision_says_that_the_classes_may_all_be_wrong():
    p = torch.tensor([[0.91, *[0.01] * 9]])
    assert "Unsure" not in panels.details(explanation(probabilities=p))
    assert "Unsure: it may show none of these classes" in panels.details(explanation())


def test_a_masked_model_shows_the_mask_what_was_seen_and_the_bits():
    mask = torch.linspace(0, 0.5, 32).expand(1, 32, 32)
    seen = torch.linspace(-9, 9, 32).expand(1, 3, 32, 32)  # far outside of what pixels can be
    bits = 24 * mask
    policy = Preprocessing(mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.2))
    sigma = torch.linspace(0.1, 0.3, 8).expand(1, 8, 8)
    found = explanation(mask=mask, seen=seen, bits=bits, sigma=sigma, preprocessing=policy)
    tiles = panels.maps(PICTURE, found, 1.0)
    assert [caption for _, caption in tiles] == [
        "seen by the classifier",
        "attention map, 0 to 1",
        "bits per pixel (6,144 pass), 0 to 12",
        "levels, 3 of 20 used, 0 to 19",
        "uncertainty σ, 0.1 to 0.3",
    ]
    assert np.abs(tiles[1][0][0, -1] - colour(0.5)).max() <= 1  # a mask's colours are from 0 to 1
    saw = tiles[0][0].astype(int)
    values = 255 * (np.linspace(-9, 9, 32)[:, None] * 0.2 + np.array(policy.mean))
    assert np.abs(saw[5] - values.clip(0, 255)).max() <= 1
    assert np.abs(tiles[2][0][0, -1] - colour(1.0, "cividis")).max() <= 1
    area = "The mask opens 25% of the image and lets 6,144 bits through"
    assert area in panels.details(found)
    assert "The mask" not in panels.details(explanation())
    closed = explanation(mask=torch.zeros(1, 32, 32), seen=seen, bits=0 * bits)
    assert "nothing of the image was seen" in panels.details(closed)
    assert "nothing of the image" not in panels.details(found)


def test_levels_have_the_colours_of_their_rank_and_all_tiles_the_size_of_the_picture():
    picture = np.asarray(photo(32, 16))
    tiles = [tile for tile, _ in panels.maps(picture, explanation(), 0.5)]
    assert {tile.shape[:2] for tile in tiles} == {(128 + 256 // 20 + 1, 256)}
    levels = tiles[1].astype(int)
    for at, value in (((0, 0), 1.0), ((0, 255), 7 / 19), ((127, 0), 0.0)):
        assert np.abs(levels[at] - colour(value)).max() <= 2
    assert np.array_equal(levels[-1, [0, -1]], [colour(0), colour(1)])  # the bar below it


def test_the_opacity_mixes_map_and_picture():
    for opacity in (0.0, 0.4, 1.0):
        tile, caption = panels.maps(PICTURE, explanation(), opacity)[0]
        for at, value in (((0, 0), 1.0), ((255, 255), 0.0)):
            mixed = opacity * colour(value) + (1 - opacity) * PICTURE[at[0] // 8, at[1] // 8]
            assert np.abs(tile[at] - mixed).max() <= 1
        assert caption == "attention map, 0 to 1"


def test_samples_have_the_scale_of_the_map():
    pixels = torch.from_numpy(PICTURE.copy()).permute(2, 0, 1)
    sampled = torch.stack([torch.full((1, 8, 8), 0.5), torch.full((1, 8, 8), 2.0)])
    (seen, _), *tiles = panels.samples(pixels, explanation(sample_maps=sampled))
    assert np.array_equal(seen[::8, ::8], PICTURE)
    found = np.array([tile[0, 0] for tile, _ in tiles])
    assert found == pytest.approx(np.array([colour(0.25), colour(1)]), abs=1)  # of 0 to 2


def test_what_the_blocks_change():
    def found(p, map):
        p = torch.tensor([p])
        return Explanation(p, (2, 2), ("ant", "bee", "cat"), map=None if map is None else map[None])

    map = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    other = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    before = found([0.7, 0.2, 0.1], map)
    text = panels.change_text(before, found([0.6, 0.3, 0.1], map))
    assert "The decision stays ant: 70.0% to 60.0%." in text
    assert "cosine is 1.00, centred 1.00." in text and "| bee | 20.0% | 30.0% |" in text
    text = panels.change_text(before, found([0.1, 0.8, 0.1], other))
    assert "The decision changes from ant (70.0% to 10.0%) to bee (80.0%)." in text
    assert "cosine is 0.00, centred -0.33." in text
    assert "one of them is flat" in panels.change_text(before, found([0.7, 0.2, 0.1], 0 * map))
    assert "cosine" not in panels.change_text(before, found([0.7, 0.2, 0.1], None))
    tiles = panels.change_maps(before, found([0.7, 0.2, 0.1], other))
    expected = np.array([colour(0), colour(1), colour(1, "RdBu_r")])
    assert np.array([tile[-1, 0] for tile, _ in tiles]) == pytest.approx(expected, abs=1)
    *_, (unchanged, _) = panels.change_maps(before, before)
    assert unchanged[0, 0] == pytest.approx(colour(0.5, "RdBu_r"), abs=1)  # white
    assert panels.change_maps(before, found([0.7, 0.2, 0.1], None)) == []


def test_the_change_of_a_masked_model_is_that_of_its_mask():
    """The map behind it stays above 0 where the mask is closed."""
    masks = torch.full((2, 1, 32, 32), 0.5)
    masks[1], masks[1, ..., 0] = 0, 0.9  # both on the scale 0 to 0.9, the difference on -0.5 to 0.5
    tiles = panels.change_maps(*(explanation(mask=mask) for mask in masks))
    expected = np.array([colour(5 / 9), colour(1), colour(0.9, "RdBu_r")])
    assert np.array([tile[-1, 0] for tile, _ in tiles]) == pytest.approx(expected, abs=1)


def test_class_names_cannot_become_markup():
    assert panels.escape("a_b|<i>\n![x](y)$z") == r"a\_b\|\<i\> \!\[x\]\(y\)\$z"
    assert panels.escape("כלב") == "\u200eכלב\u200e"  # does not turn the order of a line around
    p = torch.full((2, 1, 10), 0.1)
    bad = explanation(class_names=("<img src=x>\n# [a](b)",) * 10, sample_probabilities=p)
    for text in (panels.details(bad), panels.change_text(bad, bad)):
        assert r"\<img src\=x\> \# \[a\]\(b\)" in text and "<img" not in text.replace(r"\<", "")


@pytest.mark.parametrize(("name", "sign"), [("encoding", "⚠ "), ("faithful", "")])
def test_a_map_that_misleads_has_a_warning(name, sign):
    text = panels.verdict(StoredVerdict(Verdict(name, ()), "measured on <b>"))
    assert text.startswith(f"{sign}**Map: {name}.**") and r"measured on \<b\>" in text


def test_models_without_levels_noise_or_attention_say_so(tmp_path, monkeypatch):
    def show(name):
        found = viewer(tmp_path, name).show(photo(), "photo").now[0]
        return panels.details(found), len(panels.maps(PICTURE, found, 0.5))

    text, count = show("tiny_aib")
    assert "not quantised" in text and count == 2
    text, count = show("vgg_att2")
    assert "deterministic" in text and "std" not in text and count == 1
    monkeypatch.setattr(maps_module, "has_captum", lambda: False)
    text, count = show("tiny_dvib")
    assert "pip install 'aib[posthoc]'" in text and count == 0


def test_a_model_without_attention_shows_grad_cam(tmp_path):
    pytest.importorskip("captum")
    found = viewer(tmp_path, "tiny_dvib").show(photo(), "photo").now[0]
    assert "Grad-CAM" in panels.details(found) and len(panels.maps(PICTURE, found, 0.5)) == 1
