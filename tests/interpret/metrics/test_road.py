"""ROAD: the imputation against a dense solve, the curves against a classifier that is known."""

import pytest
import torch

from aib.interpret.metrics.faithfulness import FRACTIONS, impute_linear, removal_order, road


def dense_solution(image: torch.Tensor, removed: torch.Tensor) -> torch.Tensor:
    """Each removed pixel the weighted mean of its neighbours: image [C,H,W], removed [H,W]."""
    places = [tuple(place) for place in removed.nonzero().tolist()]
    system = torch.zeros(len(places), len(places), dtype=torch.float64)
    right = torch.zeros(len(places), len(image), dtype=torch.float64)
    for i, (r, c) in enumerate(places):
        for down in (-1, 0, 1):
            for across in (-1, 0, 1):
                there = (r + down, c + across)
                inside = 0 <= there[0] < removed.shape[0] and 0 <= there[1] < removed.shape[1]
                if there == (r, c) or not inside:
                    continue
                weight = 1 / 6 if 0 in (down, across) else 1 / 12
                system[i, i] += weight
                if there in places:
                    system[i, places.index(there)] -= weight
                else:
                    right[i] += weight * image[:, there[0], there[1]]
    solved = image.double()
    for (r, c), values in zip(places, torch.linalg.solve(system, right), strict=True):
        solved[:, r, c] = values
    return solved


def test_the_imputation_solves_the_linear_system():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, 7, 9, generator=generator)
    removed = torch.rand(4, 1, 7, 9, generator=generator) < torch.tensor(
        [0.1, 0.5, 0.9, 0.0]
    ).reshape(4, 1, 1, 1)
    removed[2] = True
    removed[2, 0, 0, 0] = False  # one known pixel: its colour is everywhere
    removed[1, 0, :4, :4] = True
    found = impute_linear(x, removed, tolerance=1e-6)
    for i in range(4):
        expected = dense_solution(x[i], removed[i, 0])
        assert torch.allclose(found[i].double(), expected, atol=1e-4)
    assert torch.equal(found[3], x[3])
    assert torch.allclose(found[2], x[2, :, :1, :1].expand(3, 7, 9), atol=1e-4)
    # The default tolerance is well below the noise of 0.01.
    assert (impute_linear(x, removed) - found).abs().max() < 2e-3


def mean_brightness(x: torch.Tensor) -> torch.Tensor:
    """Probability of class 0 is the mean of the image."""
    mean = x.mean((1, 2, 3))
    return torch.stack([mean, 1 - mean], dim=1).log()


def test_an_image_is_imputed_alike_in_any_batch():
    """One with a large hole takes many more steps than one with a single missing pixel."""
    x = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    removed = torch.zeros(3, 1, 16, 16, dtype=torch.bool)
    removed[0, :, :15], removed[1, :, 4, 4], removed[2, :, 3:9, 2:7] = True, True, True
    alone = torch.cat([impute_linear(x[i : i + 1], removed[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(impute_linear(x, removed), alone, rtol=0, atol=1e-6)


def test_the_curves_are_the_probabilities_of_imputed_images():
    generator = torch.Generator().manual_seed(0)
    x = 0.6 + 0.3 * torch.rand(3, 3, 8, 8, generator=generator)
    maps = torch.rand(3, 8, 8, generator=generator)
    curves = road(mean_brightness, x, maps, noise=0.0)
    assert curves["road_morf"].fractions.tolist() == pytest.approx([0, *FRACTIONS])
    rank = removal_order(maps)
    for column, fraction in enumerate(FRACTIONS, start=1):
        count = round(64 * fraction)
        for i in range(3):
            for name, removed in (("morf", rank[i] < count), ("lerf", rank[i] >= 64 - count)):
                expected = float(dense_solution(x[i], removed).mean())
                found = float(curves[f"road_{name}"].values[i, column])
                assert found == pytest.approx(expected, abs=1e-3)
    by_hand = torch.stack([x.mean((1, 2, 3)), *curves["road_morf"].values.T[1:]], dim=1).double()
    widths = torch.tensor([0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.2], dtype=torch.float64)
    area = ((by_hand[:, 1:] + by_hand[:, :-1]) / 2 * widths).sum(1) / 0.9
    assert torch.allclose(curves["road_morf"].area.double(), area, atol=1e-5)


def test_noise_is_small_seeded_and_only_on_imputed_pixels():
    x = torch.zeros(2, 3, 8, 8)
    maps = torch.arange(64.0).reshape(1, 8, 8).expand(2, 8, 8)
    seen = []

    def predict(images):
        seen.append(images.clone())
        return torch.zeros(len(images), 2)

    road(predict, x, maps, fractions=[0.5], noise=0.01, seed=3)
    road(predict, x, maps, fractions=[0.5], noise=0.01, seed=3)
    full, most, least, *again = seen
    assert torch.equal(full, x)
    assert torch.equal(most[:, :, :4], x[:, :, :4]) and torch.equal(least[:, :, 4:], x[:, :, 4:])
    assert 0.007 < float(most[:, :, 4:].std()) < 0.013
    assert torch.equal(most, again[1]) and torch.equal(most[0], most[1])
    road(predict, x, maps, fractions=[0.5], seed=4)
    assert not torch.equal(seen[-2], most)
