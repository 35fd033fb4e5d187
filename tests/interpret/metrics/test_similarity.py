import torch
from hypothesis import given, settings, strategies as st
from scipy import stats

from aib.interpret.metrics.similarity import (
    auroc,
    centred_cosine,
    cosine,
    min_max,
)


def brute_auroc(scores: list[float], positive: list[bool]) -> float:
    """The share of pairs that are in order, ties counting half: the definition itself."""
    inside = [s for s, p in zip(scores, positive, strict=True) if p]
    outside = [s for s, p in zip(scores, positive, strict=True) if not p]
    wins = sum((a > b) + 0.5 * (a == b) for a in inside for b in outside)
    return wins / (len(inside) * len(outside))


pairs = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40)


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_auroc_is_the_pair_count_with_ties(rows):
    scores = torch.tensor([[float(s) for s, _ in rows]])
    positive = torch.tensor([[p for _, p in rows]])
    value = auroc(scores, positive, torch.ones_like(positive))
    if positive.all() or not positive.any():
        assert value.isnan().all()
    else:
        assert abs(float(value) - brute_auroc(scores[0].tolist(), positive[0].tolist())) < 1e-12


def test_the_centred_cosine_is_scipy_s_pearson():
    torch.manual_seed(0)
    first = torch.randint(0, 6, (5, 4, 5)).float()
    second = torch.rand(5, 4, 5) + 0.3 * first
    a, b = min_max(first), min_max(second)
    for i in range(5):
        x, y = first[i].flatten().numpy(), second[i].flatten().numpy()
        assert abs(float(centred_cosine(a, b)[i]) - stats.pearsonr(x, y).statistic) < 1e-5


def test_flat_maps_follow_their_rules():
    ramp = torch.arange(16.0).reshape(1, 4, 4)
    flat = torch.full_like(ramp, 0.4)
    nearly = flat.clone()
    nearly[0, 0, 0] += 5e-7
    a, b, c = min_max(flat), min_max(nearly), min_max(ramp)
    assert a.flat.all() and b.flat.all() and not c.flat.any()
    assert torch.equal(a.values, flat.flatten(1))
    assert float(cosine(a, b)) == 1 and float(cosine(a, c)) == 0
    assert float(cosine(min_max(0 * flat), a)) == 1
    assert centred_cosine(a, b).isnan().all() and centred_cosine(a, c).isnan().all()
