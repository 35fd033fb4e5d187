"""BatchNorm's statistics, estimated anew, against statistics computed by hand."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from aib.data import Batches
from aib.training.ema import estimate_batch_norm
from aib.training.fit import fit
from aib.training.freeze import norms_in
from tests.helpers import SMALL, image_set, images, same_weights, small_model


class Inputs:
    """What a layer receives, call by call."""

    def __init__(self, layer: nn.Module):
        self.seen: list[Tensor] = []
        self.hook = layer.register_forward_pre_hook(lambda _, x: self.seen.append(x[0].clone()))

    def means(self, every: int = 1, first: int = 0) -> tuple[Tensor, Tensor]:
        """Mean over calls of each call's mean and unbiased variance, of every n-th call."""
        calls = [x.transpose(0, 1).flatten(1).double() for x in self.seen[first::every]]
        return (
            torch.stack([x.mean(1) for x in calls]).mean(0).float(),
            torch.stack([x.var(1) for x in calls]).mean(0).float(),
        )


def assert_statistics(found: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor]) -> None:
    for value, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-5)


def test_both_passes_of_a_model_that_looks_twice_have_their_own() -> None:
    model = small_model("tiny_aib_masked", propose="twice").eval()
    name, norm = next(
        (n, m) for n, m in model.body[0].named_modules() if "Norm" in type(m).__name__
    )
    inputs = Inputs(norm)
    estimate_batch_norm(model, [images(8), 2 + images(8)])
    assert len(inputs.seen) == 4  # first pass, second pass, twice
    own = dict(model.first_pass.named_buffers())
    first = (own[f"{name}.{kind}".replace(".", "/")] for kind in ("running_mean", "running_var"))
    assert_statistics(tuple(first), inputs.means(2, 0))
    assert_statistics((norm.running_mean, norm.running_var), inputs.means(2, 1))
    assert not torch.allclose(norm.running_mean, own[f"{name}.running_mean".replace(".", "/")])


@pytest.mark.parametrize("name", ["tiny_evaluator", "tiny_aib_masked", "tiny_aib_qt"])
def test_they_are_those_that_training_mode_gives(name: str) -> None:
    """With PyTorch's own mean over all batches; an evaluator sees random masks in training."""
    model, batches = small_model(name, width=0.1).eval(), [images(8), 2 + images(8)]
    reference = deepcopy(model).train()
    for norm in reference.modules():
        if isinstance(norm, nn.modules.batchnorm._NormBase):
            norm.momentum = None
            norm.reset_running_stats()
    torch.manual_seed(3)
    for x in batches:
        reference(x)
    estimate_batch_norm(model, batches, seed=3)
    assert not any(module.training for module in model.modules())
    assert {norm.momentum for norm in norms_in(model)} == {0.1}
    for key, value in reference.state_dict().items():
        if key.endswith(("running_mean", "running_var")):
            torch.testing.assert_close(model.state_dict()[key], value, rtol=1e-4, atol=1e-5)


def test_training_ends_with_those_of_the_averaged_weights() -> None:
    """The last epoch's first batches through the averaged model; its weights stay the same."""
    s = replace(SMALL, ema=0.9, ema_batch_norm=3)
    plain = fit(small_model(num_classes=4), image_set(), replace(s, ema_batch_norm=0)).model
    fitted = fit(small_model(num_classes=4), image_set(), s, validation=image_set(8)).model
    batches = Batches(image_set(), 8, train=True).epoch(s.epochs - 1)
    estimate_batch_norm(plain, [next(batches)[0] for _ in range(3)])
    for name, value in plain.state_dict().items():
        if "num_batches" not in name:
            assert torch.equal(value, fitted.state_dict()[name]), name


def test_a_short_training_ends_with_statistics_of_its_last_weights() -> None:
    """Running averages of ten steps would still be near their initial values."""
    fitted = fit(small_model(num_classes=4), image_set(), SMALL).model
    reference = deepcopy(fitted)
    estimate_batch_norm(
        reference, [x for x, _ in Batches(image_set(), 8, train=True).epoch(SMALL.epochs - 1)]
    )
    for name, value in reference.state_dict().items():
        assert "num_batches" in name or torch.equal(value, fitted.state_dict()[name]), name
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aib.training.loop.FEW_STEPS", 10)
        averaged = fit(small_model(num_classes=4), image_set(), SMALL).model
    assert not same_weights(averaged, fitted)
    for (name, mine), (_, theirs) in zip(
        fitted.named_parameters(), averaged.named_parameters(), strict=True
    ):
        assert torch.equal(mine, theirs), name
