import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aib.errors import AibError
from aib.interpret import (
    anchor_counts,
    anchor_perplexity,
    energy_passed,
    index_entropy,
    nats_to_bits,
    perplexity,
)


def test_known_entropies():
    one = torch.full((4, 4), 3)
    two = torch.arange(16).reshape(4, 4) % 2
    every = torch.arange(16).reshape(4, 4)
    bits = index_entropy(torch.stack([one, two, every]), 16)
    assert bits.tolist() == pytest.approx([0, 1, 4])
    assert perplexity(bits).tolist() == pytest.approx([1, 2, 16])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=6, max_size=6))
def test_entropy_is_scipy_s(values):
    indices = torch.tensor(values).reshape(1, 2, 3)
    counts = anchor_counts(indices, 7)
    assert counts.tolist() == [[values.count(i) for i in range(7)]]
    expected = stats.entropy(counts[0].double().numpy(), base=2)
    assert float(index_entropy(indices, 7)) == pytest.approx(expected, abs=1e-9)


def test_maps_that_use_one_anchor_each_use_many_together():
    indices = torch.arange(8)[None, :, None, None].expand(2, 8, 3, 3)  # [S,B,h,w]
    assert index_entropy(indices, 20).shape == (2, 8)
    assert float(index_entropy(indices, 20).sum()) == 0
    assert float(anchor_perplexity(indices, 20)) == pytest.approx(8)


def test_nats_become_bits():
    assert float(nats_to_bits(torch.tensor(math.log(8)))) == pytest.approx(3)


def test_energy_passed_is_the_ratio_of_squares():
    generator = torch.Generator().manual_seed(0)
    f, a = torch.randn(2, 5, 4, 4, generator=generator), torch.rand(2, 4, 4, generator=generator)
    gated, residual = f * a[:, None], f * (1 + a[:, None])
    total = f.square().sum((1, 2, 3))
    torch.testing.assert_close(energy_passed(f, a), gated.square().sum((1, 2, 3)) / total)
    torch.testing.assert_close(
        energy_passed(f, a, "residual"), residual.square().sum((1, 2, 3)) / total
    )
    assert energy_passed(f, torch.ones(2, 4, 4)).tolist() == [1, 1]
    assert energy_passed(0 * f, a).isnan().all()


def test_bad_input_is_named():
    with pytest.raises(AibError, match=r"\[2, 5, 5\] do not fit features \[2, 3, 4, 4\]"):
        energy_passed(torch.rand(2, 3, 4, 4), torch.rand(2, 5, 5))
    with pytest.raises(AibError, match="'sum'"):
        energy_passed(torch.rand(2, 3, 4, 4), torch.rand(2, 4, 4), "sum")
    with pytest.raises(AibError, match="float32"):
        index_entropy(torch.rand(2, 4, 4), 5)
    with pytest.raises(AibError, match="0 to 4, not 2 to 7"):
        index_entropy(torch.tensor([[[2, 7]]]), 5)
