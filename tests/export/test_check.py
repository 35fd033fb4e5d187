"""What the comparison with PyTorch finds, and what it lets pass."""

import pytest
import torch
from torch import nn

import aib
from aib.export.check import check
from aib.export.one_pass import FixedLevels, OnePass, traceable
from tests.helpers import filled_model


def runner(model, change=lambda outputs: outputs):
    """Stands for an exported file: PyTorch, and what an exporter may have made of it."""
    one_pass = OnePass(traceable(model)).eval()
    return torch.no_grad()(lambda pixels: change(one_pass(pixels)))


@pytest.mark.parametrize("name", ["logits", "map", "sigma"])
@pytest.mark.parametrize("crooked", [lambda v: v + 0.01, lambda v: v * float("nan")])
def test_the_check_finds_any_output_that_is_off(name, crooked):
    model = filled_model("tiny_aib_qt")
    check(model, runner(model))
    with pytest.raises(aib.AibError, match=f"{name} differs by"):
        check(model, runner(model, lambda out: out | {name: crooked(out[name])}))


def test_limits_are_relative_to_large_values_and_batches_of_several_sizes_are_run():
    model, seen = filled_model("tiny_aib_qt", profile="released"), []
    model.head.decode[-1].bias.data[0] = 5000.0
    run = runner(model, lambda out: out | {"logits": out["logits"] + 0.3})
    check(model, lambda pixels: seen.append(pixels) or run(pixels))
    assert {1, 2} < {len(pixels) for pixels in seen}
    assert all(pixels.min() >= 0 and pixels.max() <= 1 for pixels in seen)


def two_levels(low, high):
    """A model whose mu_a is 0.5 everywhere."""
    torch.manual_seed(0)
    model = filled_model("tiny_aib_qt")
    nn.init.zeros_(model.attention.trunk.weight)
    nn.init.zeros_(model.attention.trunk.bias)
    model.quantizer = aib.AnchorQuantizer(2)
    model.quantizer.anchors.data = torch.tensor([low, high])
    return model.eval()


def test_a_score_between_two_levels_may_take_either_and_the_decision_must_follow():
    model = two_levels(0.25, 0.75)  # takes 0.25, the lower one in a tie
    other_side = runner(two_levels(0.25 - 1e-6, 0.75))  # takes 0.75, by a hair
    found = check(model, other_side)
    assert found.other_level == found.images * 8 * 8
    assert found.differences["map"] == 0
    # the other map beside the decision of this one
    mixed = runner(model, lambda out: out | {"map": torch.full_like(out["map"], 0.75)})
    with pytest.raises(aib.AibError, match="logits differs by"):
        check(model, mixed)


def test_a_score_that_is_nearer_to_one_level_must_take_it():
    with pytest.raises(aib.AibError, match="differs by"):
        check(two_levels(0.25, 0.76), runner(two_levels(0.25 - 0.011, 0.76)))


def test_fixed_levels_are_the_quantisers_own_also_on_a_boundary():
    quantizer = aib.AnchorQuantizer(8)
    quantizer.anchors.data = torch.tensor([0.5, 0.125, 0.875, 0.25, -1.0, 2.0, 0.375, 0.25])
    ordered = quantizer.anchors.detach().sort().values
    boundaries = (ordered[1:] + ordered[:-1]) / 2  # exact: the anchors are sums of powers of two
    a = torch.cat([boundaries, ordered, torch.linspace(-2, 3, 999)]).view(1, 1, 1, -1)
    fixed = FixedLevels(quantizer)(a)
    assert torch.equal(fixed.a_q, quantizer(a).a_q.detach())
