import pytest
import torch

from aib.errors import AibError
from aib.interpret import compare_maps, stability


def score(maps, modified, same=None):
    """Of predictions that agree where `same` says so (everywhere by default)."""
    same = torch.ones(len(maps), dtype=torch.bool) if same is None else same
    return stability(same, same, compare_maps(maps, modified))


def test_a_constant_map_scores_100_and_is_found_out():
    maps = torch.full((20, 8, 8), 0.7)
    figures = score(maps, maps + 0.1)
    assert figures.score[0.9].value == 100
    assert figures.flat == figures.flat_modified == figures.centred_undefined == 20
    assert figures.contrast == 0
    assert figures.centred_mean.value is None
    assert figures.centred[0.9].value is None
    ramp = torch.arange(64.0).reshape(1, 8, 8).expand(20, 8, 8)
    figures = score(maps, ramp)  # a flat map against one that is not
    assert figures.score[0.85].value == figures.flat_modified == 0
    assert figures.centred_undefined == figures.flat == 20


def test_one_dark_place_that_moves_is_seen_by_the_centred_cosine_alone():
    """All but one of n values are 1: the cosine is (n-2) / (n-1), the centred one -1 / (n-1)."""
    maps, modified = torch.ones(5, 8, 8), torch.ones(5, 8, 8)
    maps[:, 0, 0] = modified[:, 4, 4] = 0
    figures = score(maps, modified)
    assert figures.score[0.95].value == 100 and figures.centred[0.85].value == 0
    assert figures.centred_mean.value == pytest.approx(-1 / 63, rel=1e-4)


def test_only_prediction_consistent_images_count():
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(10, 6, 6, generator=generator)
    modified = maps.clone()
    modified[4:] = 1 - maps[4:]  # the opposite map: centred cosine -1
    same = torch.arange(10) < 5  # four good maps and one opposite map among them
    figures = score(maps, modified, same)
    assert figures.prediction_consistent.value == 50 and figures.images == 10
    assert figures.score[0.9].value == 80
    assert figures.score[0.9].low < 80 < figures.score[0.9].high
    assert figures.centred_mean.value == pytest.approx((4 - 1) / 5, abs=1e-5)
    none = score(maps, maps, torch.zeros(10, dtype=torch.bool))
    assert none.score[0.9].value is None and none.prediction_consistent.value == 0


@pytest.mark.parametrize("cells", [10, 20, 40, 60, 100])
def test_a_cosine_of_exactly_the_threshold_counts(cells):
    """Binary maps with as many open cells, k of them shared: the cosine is k / cells."""
    shared = [k for k in range(cells + 1) if 20 * k in (17 * cells, 18 * cells, 19 * cells)]
    for k in shared:
        maps, modified = torch.zeros(2, 1, 16, 16)
        maps.view(-1)[:cells] = 1
        modified.view(-1)[cells - k : 2 * cells - k] = 1
        found = score(maps, modified)
        for percent in (85, 90, 95):
            assert found.score[percent / 100].value == 100 * (100 * k >= percent * cells)


def test_bad_input_is_named():
    maps = torch.rand(2, 4, 4)
    with pytest.raises(AibError, match=r"\[B,h,w\].*\[2, 1, 4, 4\]"):
        compare_maps(maps[:, None], maps[:, None])
    maps[1, 2, 3] = torch.nan
    with pytest.raises(AibError, match="maps of 1 image hold NaN"):
        score(maps, torch.rand(2, 4, 4))
