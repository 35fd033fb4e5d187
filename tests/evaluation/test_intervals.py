"""Bootstrap intervals over images."""

import torch

from aib.evaluation.intervals import ratio_interval


def test_the_interval_of_a_share_is_the_normal_one():
    torch.manual_seed(0)
    hits = (torch.rand(2000, 1) < 0.3).double()
    low, high = ratio_interval(hits, torch.ones_like(hits), resamples=4000)
    share = float(hits.mean())
    reach = 1.96 * (share * (1 - share) / 2000) ** 0.5
    assert abs(float(low) - (share - reach)) < 0.1 * reach
    assert abs(float(high) - (share + reach)) < 0.1 * reach


def test_the_interval_repeats_with_its_seed_and_is_nan_where_nothing_counts():
    hits = torch.arange(50.0)[:, None].expand(50, 2)
    among = torch.tensor([1.0, 0.0]).expand(50, 2)
    first = ratio_interval(hits * among, among, resamples=100, seed=1)
    again = ratio_interval(hits * among, among, resamples=100, seed=1)
    other = ratio_interval(hits * among, among, resamples=100, seed=2)
    assert first[0][0] == again[0][0] and first[0][0] != other[0][0]
    assert first[0][1].isnan() and first[1][1].isnan()
