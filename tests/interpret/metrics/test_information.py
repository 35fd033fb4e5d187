import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import stats

from aib.interpret.measures.images import anchor_counts, entropy_bits


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=6, max_size=6))
def test_counts_are_those_of_python_and_entropy_is_scipy_s(values):
    counts = anchor_counts(torch.tensor(values).reshape(1, 2, 3), 7)
    assert counts.tolist() == [[values.count(i) for i in range(7)]]
    expected = stats.entropy(counts[0].double().numpy(), base=2)
    assert float(entropy_bits(counts)) == pytest.approx(expected, abs=1e-9)
