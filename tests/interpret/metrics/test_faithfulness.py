from types import SimpleNamespace

import pytest
import torch
from scipy.ndimage import gaussian_filter

from aib.errors import AibError
from aib.interpret import deletion_insertion, road
from aib.interpret.metrics.faithfulness import blurred, removal_order

SIDE = 8


def weighted_sum(weights):
    """Probability of class 0: the weights of the pixels that show (of weights that add up to 1)."""

    def predict(x):
        p = (x[:, 0] * weights).sum(dim=(1, 2))
        return torch.stack([p, (1 - p) / 2, (1 - p) / 2], dim=1).log()

    return predict


def weights(seed=0):
    values = torch.rand(SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
    return values / values.sum()


def test_curves_of_an_additive_classifier_are_its_cumulated_weights():
    w = weights()
    x = torch.ones(3, 1, SIDE, SIDE)
    maps = torch.stack([w, -w, torch.zeros_like(w)])
    curves = deletion_insertion(
        weighted_sum(w), x, maps, steps=SIDE * SIDE, baseline=torch.zeros(1)
    )
    best = torch.cat([torch.zeros(1), w.flatten().sort(descending=True).values.cumsum(0)])
    worst = torch.cat([torch.zeros(1), w.flatten().sort().values.cumsum(0)])
    torch.testing.assert_close(curves["insertion"].values[0], best)
    torch.testing.assert_close(curves["deletion"].values[0], 1 - best, atol=1e-5, rtol=0)
    torch.testing.assert_close(curves["insertion"].values[1], worst)
    # The additive classifier makes deletion and insertion mirror images: areas add up to 1.
    area = curves["deletion"].area + curves["insertion"].area
    torch.testing.assert_close(area, torch.ones(3), atol=1e-5, rtol=0)
    assert curves["insertion"].area[0] > curves["insertion"].area[2] > curves["insertion"].area[1]


def test_logits_become_probabilities_and_may_come_in_an_object():
    x = torch.zeros(2, 1, SIDE, SIDE)
    logits = torch.tensor([[0.0, 3.0], [2.0, 0.0]])
    curves = deletion_insertion(lambda _: SimpleNamespace(logits=logits), x, torch.rand(2, 4, 4))
    expected = logits.softmax(1).amax(1)
    torch.testing.assert_close(curves["deletion"].values, expected[:, None].expand(2, 17))
    torch.testing.assert_close(curves["deletion"].area, expected)


def test_ties_go_in_a_random_order_that_the_seed_fixes():
    flat = torch.zeros(2, SIDE, SIDE)
    order = removal_order(flat, seed=1)
    assert torch.equal(order[0], order[1]) and torch.equal(order, removal_order(flat, seed=1))
    assert not torch.equal(order, removal_order(flat, seed=2))
    assert order[0].flatten().sort().values.tolist() == list(range(SIDE * SIDE))
    assert not torch.equal(order[0].flatten(), torch.arange(SIDE * SIDE))
    two_levels = torch.zeros(1, SIDE, SIDE)
    two_levels[0, 5:] = 1
    assert (removal_order(two_levels)[0, 5:] < 3 * SIDE).all()


def test_the_blur_is_scipy_s():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 3, 32, 32, generator=generator)
    blur = blurred(x)
    sigma = (0, 0, 32 / 8, 32 / 8)
    expected = gaussian_filter(x.numpy(), sigma, mode="mirror", truncate=3)  # no edge pixel twice
    torch.testing.assert_close(blur, torch.from_numpy(expected), atol=1e-5, rtol=0)
    flat = torch.full((1, 3, 9, 6), 2.0)
    torch.testing.assert_close(blurred(flat), flat)
    assert blurred(torch.ones(1, 1, 1, 1)).shape == (1, 1, 1, 1)


@pytest.mark.parametrize("curves", [deletion_insertion, road])
def test_maps_with_nan_rank_no_pixels(curves):
    maps = torch.rand(2, SIDE, SIDE)
    maps[1, 0, 0] = torch.nan
    with pytest.raises(AibError, match="the maps of 1 image hold NaN or infinite values"):
        curves(weighted_sum(weights()), torch.rand(2, 3, SIDE, SIDE), maps)
