"""The quantiser against brute force, its gradients, its book-keeping."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from aib import AnchorQuantizer

# Multiples of 1/64 are exact in float32 and so are their midpoints: ties are real ties.
grid = st.integers(-128, 128).map(lambda k: k / 64)


def quantizer_with(anchors, training=False):
    quantizer = AnchorQuantizer(len(anchors)).train(training)
    quantizer.anchors.data = torch.tensor(anchors, dtype=torch.float32)
    return quantizer


def brute_force(scores, anchors):
    """For every score the closest anchor's value, the lower one in a tie."""
    by_value = sorted(anchors)
    return [min(by_value, key=lambda v: (abs(score - v), v)) for score in scores]


@given(st.lists(grid, min_size=2, max_size=12), st.lists(grid, min_size=1, max_size=30))
def test_every_score_takes_the_nearest_anchor_and_the_lower_in_a_tie(anchors, scores):
    scores += [(low + high) / 2 for low, high in pairwise(sorted(anchors))]  # ties
    q = quantizer_with(anchors)(torch.tensor(scores))
    assert q.a_q.tolist() == brute_force(scores, anchors)


def test_bf16_scores_are_compared_in_full_precision():
    a = torch.rand(1000).bfloat16()
    quantizer = AnchorQuantizer(50)
    q = quantizer(a)
    assert q.a_q.dtype == torch.float32
    assert q.a_q.tolist() == brute_force(a.tolist(), quantizer.anchors.tolist())


def test_the_task_gradient_passes_straight_through_and_leaves_the_anchors_alone():
    quantizer = AnchorQuantizer(7)
    a = torch.rand(2, 5, 5, requires_grad=True)
    a_q = quantizer(a).a_q
    task = (a_q**3 * torch.rand(2, 5, 5)).sum()
    to_a, to_a_q, to_anchors = torch.autograd.grad(
        task, (a, a_q, quantizer.anchors), allow_unused=True
    )
    assert torch.equal(to_a, to_a_q)
    assert to_anchors is None


def test_each_term_is_the_mean_squared_distance_and_moves_only_its_part():
    quantizer = AnchorQuantizer(4)
    a = torch.rand(100, requires_grad=True)
    q, v = quantizer(a), quantizer.anchors
    squared = float(np.mean((a - q.a_q).detach().numpy() ** 2))
    assert q.quantization.item() == pytest.approx(squared, rel=1e-5)
    assert q.commitment.item() == pytest.approx(squared, rel=1e-5)
    to_a, to_anchors = torch.autograd.grad(q.quantization, (a, v), allow_unused=True)
    expected = [2 * (v[i] - a[q.indices == i]).sum().detach() / 100 for i in range(4)]
    assert to_a is None
    torch.testing.assert_close(to_anchors, torch.stack(expected))
    to_a, to_anchors = torch.autograd.grad(q.commitment, (a, v), allow_unused=True)
    assert to_anchors is None
    torch.testing.assert_close(to_a, 2 * (a - q.a_q).detach() / 100)


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=60), st.integers(2, 9))
def test_usage_counts_what_was_chosen_in_training(scores, num_anchors):
    quantizer = AnchorQuantizer(num_anchors).train()
    first = quantizer(torch.tensor(scores)).indices
    second = quantizer(torch.tensor(scores[:1])).indices
    chosen = np.concatenate([first.numpy(), second.numpy()])
    assert quantizer.usage.tolist() == np.bincount(chosen, minlength=num_anchors).tolist()


@pytest.mark.parametrize(
    ("usage", "perplexity"),
    [
        ([5, 5, 5, 5], 4.0),
        ([9, 0, 0, 0], 1.0),
        ([3, 3, 0, 0], 2.0),
        ([0, 0, 0, 0], 1.0),
        ([2, 1, 1, 0], math.exp(0.5 * math.log(2) + 0.5 * math.log(4))),
    ],
)
def test_perplexity_is_the_number_of_anchors_really_in_use(usage, perplexity):
    quantizer = AnchorQuantizer(4)
    quantizer.usage = torch.tensor(usage)
    assert quantizer.perplexity().item() == pytest.approx(perplexity, rel=1e-5)
